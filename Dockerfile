# Build: docker build --build-arg VERSION=$(python3 -c 'import millpond; print(millpond.__version__)') -t millpond .
#
# Only named paths are copied, so nothing else of a checkout can get into a layer.

# The compiled decoder, with a Rust newer than Debian's, on the same Debian and so the same glibc as the service. In
# a stage of its own, since the image of Rust has the linker that Python's lacks; only its sources make it run again.
FROM rust:1.90-slim-bookworm AS scan
WORKDIR /scan
COPY millpond/records/scan/Cargo.toml millpond/records/scan/Cargo.lock ./
COPY millpond/records/scan/src ./src
RUN cargo build --release --locked --offline

FROM python:3.13-slim-bookworm AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

# What the service runs on: the first section of the lock. Wheels only, since nothing here can compile.
COPY requirements.lock ./
RUN sed '/^# ---- build/,$d' requirements.lock > service.txt \
    && sed -n '/^# ---- build/,/^# ---- development/p' requirements.lock > build.txt \
    && python -m venv --without-pip /opt/millpond \
    && python -m pip --python /opt/millpond install --require-hashes --only-binary :all: -r service.txt \
    && python -m pip install --require-hashes --only-binary :all: -r build.txt

# pip and the build tools stay in this stage; the environment gets the finished wheel.
COPY pyproject.toml README.md LICENSE ./
COPY millpond ./millpond
COPY --from=scan /scan/target/release/libmillpond_scan.so /scan/
# The library has to load here, or every record would take the slower way unnoticed. -I: the installed package.
RUN MILLPOND_SCAN_LIBRARY=/scan/libmillpond_scan.so \
    python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && python -m pip --python /opt/millpond install --no-deps --no-index dist/*.whl \
    && /opt/millpond/bin/millpond --version \
    && /opt/millpond/bin/python -I -c "from millpond.records.scan_library import library; library()"

FROM python:3.13-slim-bookworm
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="millpond" \
      org.opencontainers.image.description="Drains one Kafka topic into one table of a hoglake lakehouse, exactly once." \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

COPY --from=build /opt/millpond /opt/millpond
# The root file system may be read-only: modules are compiled already, and nothing is written beside them.
ENV PATH=/opt/millpond/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

# A number, because Kubernetes checks runAsNonRoot without looking into /etc/passwd.
USER 10001:10001
EXPOSE 8000
# Not through urllib: it would send the question to a proxy where HTTP_PROXY is set.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ.get('MILLPOND_HTTP_PORT') or 8000), timeout=4); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["millpond"]
