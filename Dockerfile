# One image for every service of docker-compose.yml; the command selects the service.

# The full version. A tag can be moved: in production, pass the digest that you have checked as well, with
# docker build --build-arg PYTHON_DIGEST=sha256:...
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm
ARG PYTHON_DIGEST=

FROM ${PYTHON_IMAGE}${PYTHON_DIGEST:+@${PYTHON_DIGEST}} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PATH=/opt/outfox/bin:$PATH
RUN python -m venv /opt/outfox
WORKDIR /src
# A separate layer for dependencies: only changes of the lock or of constraints.txt rebuild it.
COPY constraints.txt plugin/locks/runtime.txt ./
# PyTorch's index has CPU builds without the gigabytes for GPUs. It is asked for PyTorch alone, and everything else comes
# with its hash from the lock: no package of one index can take the place of another's.
RUN pip install --require-hashes --no-deps -r runtime.txt \
    && pip install --no-deps --index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' constraints.txt)"
COPY . .
RUN pip install --no-deps --no-build-isolation . \
    && pip check

FROM ${PYTHON_IMAGE}${PYTHON_DIGEST:+@${PYTHON_DIGEST}}
ENV PATH=/opt/outfox/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HF_HUB_OFFLINE=1 \
    OUTFOX_HOME=/var/lib/outfox \
    OUTFOX_ENVIRONMENT=production \
    LABEL_STUDIO_BASE_DATA_DIR=/var/lib/label-studio
# The folders exist in the image so that new volumes belong to this user.
RUN groupadd --gid 10001 outfox \
    && useradd --uid 10001 --gid 10001 --home-dir /var/lib/outfox --no-create-home --shell /usr/sbin/nologin outfox \
    && install --directory --mode 700 --owner 10001 --group 10001 /var/lib/outfox /var/lib/label-studio
COPY --from=build /opt/outfox /opt/outfox
USER 10001:10001
WORKDIR /var/lib/outfox
CMD ["outfox", "--help"]
