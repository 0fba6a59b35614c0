# One image for every service of docker-compose.yml; the command selects the service.

FROM python:3.11-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PATH=/opt/outfox/bin:$PATH
RUN python -m venv /opt/outfox
WORKDIR /src
# A separate layer for dependencies: only changes of setup.cfg or constraints.txt rebuild it.
COPY constraints.txt setup.cfg deploy/requirements.py ./
# PyTorch's index has CPU builds without the gigabytes for GPUs; pip prefers 2.x.y+cpu for the constraint 2.x.y.
RUN python requirements.py setup.cfg label-studio postgres > requirements.txt \
    && pip install --extra-index-url https://download.pytorch.org/whl/cpu -c constraints.txt -r requirements.txt
COPY . .
RUN pip install --no-deps . \
    && pip check

FROM python:3.11-slim-bookworm
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
