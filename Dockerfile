# mr-dedup with compiled kernels, as a user who is not root:
#
#     docker build -t mr-dedup .
#     docker run --rm -v "$PWD:/data" --user "$(id -u):$(id -g)" mr-dedup dedup pages.jsonl -o kept
#
# EXTRAS are those of setup.cfg: --build-arg EXTRAS=s3,gcs,words
ARG PYTHON=3.13

# not slim: it has the C compiler that links the kernels
FROM python:${PYTHON} AS build
WORKDIR /source
COPY LICENSE MANIFEST.in README.md pyproject.toml setup.cfg setup.py ./
COPY tools/manual_pages.py tools/
COPY data_gen data_gen
COPY mr_dedup mr_dedup
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
ARG EXTRAS=s3,urls,server
RUN python -m venv /opt/mr-dedup \
    && /opt/mr-dedup/bin/pip install --no-cache-dir "$(echo /wheels/*.whl)[${EXTRAS}]"

FROM python:${PYTHON}-slim
COPY --from=build /opt/mr-dedup /opt/mr-dedup
ENV PATH=/opt/mr-dedup/bin:$PATH
RUN useradd --create-home --uid 1000 mr-dedup && install --directory --owner=1000 /data
USER 1000:1000
WORKDIR /data
ENTRYPOINT ["mr-dedup"]
