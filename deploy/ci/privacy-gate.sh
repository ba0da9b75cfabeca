#!/bin/sh
# Assesses a run with a policy, writes the report, and exits as `privacy-bounds assess` does: 0 the policy is met, 1 it is
# not, 2 the request was refused, 3 only an attestation is missing.
#
#   privacy-gate.sh RUN POLICY [CONTEXT]
#
# RUN is a mechanism, a request, or the state of another library; POLICY a policy; CONTEXT the context of the run. All are
# JSON files. The folder PRIVACY_REPORT_FOLDER (default: privacy-report) receives assessment.json, report.html and
# report.md. PRIVACY_BOUNDS names the command (default: privacy-bounds). PRIVACY_BOUNDS_IMAGE names a container image
# instead, which reads the files below the current folder and has no network.
set -uf
run=${1:?usage: privacy-gate.sh RUN POLICY [CONTEXT]}
policy=${2:?usage: privacy-gate.sh RUN POLICY [CONTEXT]}
context=${3:-}
folder=${PRIVACY_REPORT_FOLDER:-privacy-report}
command=${PRIVACY_BOUNDS:-privacy-bounds}
image=${PRIVACY_BOUNDS_IMAGE:-}

# A path that begins with - or { would be read as an option or as JSON.
path() {
  case $1 in
    -* | [{]*) printf './%s.' "$1" ;;
    *) printf '%s.' "$1" ;;
  esac
}

privacy_bounds() {
  if [ -n "$image" ]; then
    docker run --rm --network none --user "$(id -u):$(id -g)" --volume "$PWD:/work:ro" --workdir /work -- "$image" privacy-bounds "$@"
  else
    $command "$@"
  fi
}

assess() {
  if [ -n "$context" ]; then
    privacy_bounds assess "$run" --policy "$policy" --context "$context" "$@"
  else
    privacy_bounds assess "$run" --policy "$policy" "$@"
  fi
}

# The dot keeps line breaks at the end of a name, which $(...) would remove.
run=$(path "$run") run=${run%.}
policy=$(path "$policy") policy=${policy%.}
context=$(path "$context") context=${context%.}
folder=$(path "$folder") folder=${folder%.}

mkdir -p "$folder" || exit 2
rm -f "$folder/assessment.json" "$folder/report.html" "$folder/report.md" || exit 2
assess --json > "$folder/assessment.json"
code=$?
case $code in
  0 | 1 | 3) ;;
  *)
    rm -f "$folder/assessment.json"
    exit "$code"
    ;;
esac
# The sentences about a failed policy were printed with the JSON.
assess --accept text/html > "$folder/report.html" 2> /dev/null
assess --accept text/markdown > "$folder/report.md" 2> /dev/null
exit "$code"
