# The first stage installs what requirements/runtime.lock names into /opt/venv; the second holds the interpreter and that folder.
# The base image has an exact tag. To fix its digest, too: --build-arg BASE_IMAGE=python:3.11.14-slim-bookworm@sha256:...
ARG BASE_IMAGE=base
FROM python:3.11.14-slim-bookworm AS base

FROM ${BASE_IMAGE} AS build
# A mirror of the package index can be named: docker build --build-arg PIP_INDEX_URL=...
ARG PIP_INDEX_URL
# The time of files that the build writes, in seconds since 1970: equal sources give equal files.
ARG SOURCE_DATE_EPOCH
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /source
RUN python -m venv /opt/venv
COPY requirements/runtime.lock requirements/
RUN /opt/venv/bin/python -m pip install --quiet --require-hashes --only-binary :all: --requirement requirements/runtime.lock
COPY pyproject.toml README.md LICENSE ./
COPY deploy/packaging deploy/packaging
COPY api_schemas api_schemas
COPY privacy_bounds privacy_bounds
COPY service service
# The guide is written by an environment of its own, of which nothing goes into the image.
COPY requirements/guide.lock requirements/
COPY docs docs
RUN python -m venv /opt/guide \
 && /opt/guide/bin/python -m pip install --quiet --require-hashes --only-binary :all: --requirement requirements/guide.lock \
 && /opt/guide/bin/python -m properdocs build --strict --config-file docs/guide.yml
# What only installing needs does not go into the image: neither setuptools nor pip, nor the tests of other packages.
RUN /opt/venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --no-index . \
 && /opt/venv/bin/python -m pip uninstall --quiet --yes setuptools pip \
 && find /opt/venv/lib -type d -name tests -prune -exec rm -r {} + \
 && /opt/venv/bin/python -m compileall -q /opt/venv/lib

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="privacy-bounds" \
      org.opencontainers.image.description="Certified bounds on what an attacker can learn from a private release" \
      org.opencontainers.image.licenses="Apache-2.0"
# One thread per process: workers are processes, and a linear algebra library that starts more only slows its neighbours.
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1
COPY --from=build /opt/venv /opt/venv
# A user with a name: Celery warns of one without as of root.
RUN echo "privacy-bounds:x:10001:" >> /etc/group \
 && echo "privacy-bounds:x:10001:10001::/nonexistent:/usr/sbin/nologin" >> /etc/passwd
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
CMD ["privacy-bounds", "serve", "--host", "0.0.0.0", "--port", "8000"]
