#!/bin/sh
# Assesses a run with a policy, writes the report, and exits as `privacy-bounds assess` does: 0 the policy is met, 1 it is
# not, 2 the request was refused, 3 only an attestation is missing.
#
#   privacy-gate.sh RUN POLICY [CONTEXT]
#
# RUN is a mechanism, a request, or the state of another library; POLICY a policy; CONTEXT the context of the run. All are
# JSON files. The folder PRIVACY_REPORT_FOLDER (default: privacy-report) receives assessment.json, report.html and
# report.md. PRIVACY_BOUNDS names the command (default: privacy-bounds).
set -u
run=${1:?usage: privacy-gate.sh RUN POLICY [CONTEXT]}
policy=${2:?usage: privacy-gate.sh RUN POLICY [CONTEXT]}
context=${3:-}
folder=${PRIVACY_REPORT_FOLDER:-privacy-report}
command=${PRIVACY_BOUNDS:-privacy-bounds}

assess() {
  if [ -n "$context" ]; then
    $command assess "$run" --policy "$policy" --context "$context" "$@"
  else
    $command assess "$run" --policy "$policy" "$@"
  fi
}

mkdir -p "$folder" || exit 2
assess --json > "$folder/assessment.json"
code=$?
[ "$code" -eq 2 ] && exit 2
# The sentences about a failed policy were printed with the JSON.
assess --accept text/html > "$folder/report.html" 2> /dev/null
assess --accept text/markdown > "$folder/report.md" 2> /dev/null
exit "$code"
