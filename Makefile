# Each target makes .venv ready by itself: pinned versions, no root; the second time that takes a moment.
#   make PYTHON=/path/to/python3.12 ...   takes that Python instead of looking for one
#   make serve ARGS="--port 7000"         hands options to streamd serve; likewise mqtt, demo, test, bench

PYTHON ?=
ARGS ?=
N ?= 500
SECONDS ?= 60
MINUTES ?= 1
SEEDS ?= 1000
RUN := .venv/bin/python

.PHONY: help chaos-commands properties cold-property cold-kills demo demo-mqtt demo-topics topics-long mqtt-chaos mqtt-chaos-whole mqtt-long test test-spark40 test-spark41 test-spark42 notebook serve bench bench-long bench-proposal bench-spark bench-trees latency crash differential chaos lint map clean set-up set-up-server tail ui mqtt newcomer how-long redis-tests dist spark-long chaos-newest chaos-spark40 chaos-cluster test-programs demo-sessions demo-failover demo-large failover check-deploy compiled test-compiled fuzz fuzz-compiled simulate pictures examples docs docs-serve

help:
	@echo "make demo    a retrying producer, a stream, a killed Spark job: nothing lost, nothing twice"
	@echo "make demo-topics   a day of devices, replayed from 14:05 by three members, the server killed in between"
	@echo "make demo-mqtt   readings from devices, and a command from Spark to each; two gateways, server and backend killed"
	@echo "make demo-sessions   messages for 200 devices that are offline, broker and server killed in between"
	@echo "make demo-failover   three servers and three Sentinels: the primary is destroyed under a producer and a Spark job"
	@echo "make demo-large   20 million entries with 200 MB of memory, killed in between, replayed by filter and by Spark;"
	@echo "             ARGS=\"--entries 1000000\" makes it short"
	@echo "make test    all checks but the long ones: ruff, mypy, the import layers, pytest on two workers;"
	@echo "             ARGS=\"tests/unit -k window\" chooses tests, which then run in one process"
	@echo "make serve   a server for redis-cli and redis-py, without Spark; ARGS=\"--port 7000\" hands on options"
	@echo "make mqtt    an MQTT gateway with a server of its own; ARGS=\"--port 1884\" hands on options"
	@echo "make newcomer   in a fresh clone: the seconds to a server that answers, and to the end of the demo with Spark"
	@echo "make tail ARGS=STREAM   follows a stream of the server; make ui   a page for it"
	@echo "make bench   throughput as a ratio to redis-server, where that is installed; a table, and its picture"
	@echo "make crash   kills a server N=500 times while clients write, and cuts its power in simulation"
	@echo "make fuzz    looks for SECONDS=60 in all for input that breaks a promise; ARGS=\"decoder journal\" names targets;"
	@echo "             make fuzz-compiled does so on the compiled form, without coverage"
	@echo "make simulate   SEEDS=1000 runs of a primary, two replicas, a Sentinel and clients in one process, with faults that a"
	@echo "             seed decides; ARGS=\"--seed 7\" prints the history of one; SEEDS=1000000 ARGS=\"--minutes 90\" runs for that time"
	@echo "make cold-kills   a server with little memory for entries, killed while they move to files; ARGS=\"--kills 100\""
	@echo "make properties   all properties on all their examples, of which make test tries two fifths"
	@echo "make cold-property   MINUTES=1 of random histories on a server with hardly any memory for entries, compared with one"
	@echo "             that has all in memory; ARGS=\"--seed 7 --histories 1\" runs one history again"
	@echo "make differential   100,000 random requests to streamd and to redis-server; ARGS=\"--steps 1000000 --seed 7\""
	@echo "make test-programs   rq, celery, BullMQ and others on streamd, in an environment of their own"
	@echo "make redis-tests   Redis's own tests, from Debian's source package, against streamd; ARGS=\"type/hash multi\""
	@echo "make topics-long   the long form of the tests of topics; ARGS=\"--kills 50 --histories 1000\""
	@echo "make mqtt-long   the MQTT gateway killed at each point, the standards on mosquitto, random histories, the demo"
	@echo "make mqtt-chaos   1,000 devices that go from gateway to gateway, connections cut, two gateways and server killed; ARGS=\"--store redis --seconds 300\""
	@echo "make mqtt-chaos-whole   10,000 devices whose readings a backend and Spark get, and Spark answers; all is killed"
	@echo "make chaos   the long form of the chaos test: Spark on a cluster, everything is killed again and again; both"
	@echo "             the newest Spark and 4.0, or make chaos-newest, make chaos-spark40; ARGS=\"--rows 3000 --faults 10\""
	@echo "make chaos-cluster   masters of a Redis cluster are killed under a query; ARGS=\"--failovers 20\""
	@echo "make failover   100 failovers of real Sentinels, 12 more with Spark: a primary is destroyed, cut off or emptied;"
	@echo "             ARGS=\"--runs 10 --sentinel 7 --how cut-off --with producers,groups,spark\""
	@echo "make chaos-commands   Spark's commands to devices while a cluster, gateway and server are killed; minutes"
	@echo "make spark-long   the tests that start a Spark of their own: a cluster that is killed, the demo, Spark Connect"
	@echo "make compiled    streamd with its hot rooms compiled, in .venv-compiled; takes a C compiler and two minutes;"
	@echo "             ARGS=--report writes build/report.html instead: which lines mypyc could not make native"
	@echo "make test-compiled   the tests that go over the wire, on that"
	@echo "make test-spark40   the core tests of the data source on Spark 4.0, in an environment of its own; or 41, 42"
	@echo "make notebook   runs examples/orders.ipynb, topics.ipynb and mqtt.ipynb from top to bottom"
	@echo "make examples   runs examples/*.py, one after the other; the tests run each, too"
	@echo "make bench-long   all workloads, memory, what stays of it, growth, Spark; takes long"
	@echo "make bench-proposal   XADD with IDMP and IDMPAUTO beside plain, as the proposal of Redis measured it; writes"
	@echo "             docs/idempotence.md's table; ARGS=--quick takes minutes"
	@echo "make dist   wheel and sdist in dist/, each tried in a fresh environment on every Python that is here;"
	@echo "             with a C compiler a wheel of the compiled form, too"
	@echo "make check-deploy   systemd-analyze, promtool and buildah, where they are, look at deploy/"
	@echo "make pictures   the pictures in docs/pictures, with tmux and headless Chromium, and the tables of speed"
	@echo "make docs    the documents as a site in build/site; a broken link or anchor fails it"
	@echo "make docs-serve   shows them on http://127.0.0.1:8000, and again when they change"
	@echo "make map     the rooms of the server, who imports whom, and the lines of each"
	@echo "make bench-spark   rows per second of the Spark source, beside redis-py and Spark's own; writes docs/spark-reference.md's table"
	@echo "make bench-trees OTHER=DIR   this checkout's CPU per request beside that of another checkout"
	@echo "make latency   how long others wait while one client does something large, beside redis-server"
	@echo "make lint    the checks that take no time: ruff, mypy, the import layers"
	@echo "make clean   removes .venv and everything that was generated"

demo: set-up
	@$(RUN) scripts/run.py demo $(ARGS)

demo-topics: set-up
	@$(RUN) scripts/run.py demo.topics $(ARGS)

demo-mqtt: set-up
	@$(RUN) scripts/run.py demo.mqtt $(ARGS)

demo-sessions: set-up
	@$(RUN) scripts/run.py demo.sessions $(ARGS)

demo-failover: set-up
	@$(RUN) -m demo.failover $(ARGS)

demo-large: set-up
	@$(RUN) scripts/run.py demo.large $(ARGS)

# All of it on two workers; what ARGS chooses in one process, which begins at once.
test: how-long lint
	@$(RUN) -m pytest $(or $(ARGS),-n 2)

how-long:
	@$(if $(ARGS),,echo "make test: about 25 minutes on two cores; make test ARGS=tests/unit runs a part")

serve: set-up-server
	@exec $(RUN) scripts/run.py streamd serve $(ARGS)

mqtt: set-up-server
	@exec $(RUN) scripts/run.py streamd mqtt $(ARGS)

tail: set-up-server
	@exec $(RUN) -m streamd tail $(ARGS)

ui: set-up-server
	@exec $(RUN) -m streamd ui $(ARGS)

newcomer:
	@python3 scripts/newcomer.py $(ARGS)

bench: set-up
	@$(RUN) -m bench $(ARGS)

crash: set-up
	@$(RUN) -m tests.crash --kills $(N) $(ARGS)

fuzz: set-up
	@$(RUN) -m tests.fuzz --seconds $(SECONDS) $(ARGS)

fuzz-compiled: set-up
	@$(RUN) scripts/compiled.py fuzz --seconds $(SECONDS) $(ARGS)

simulate: set-up
	@$(RUN) -m tests.simulation --seeds $(SEEDS) $(ARGS)

cold-kills: set-up
	@$(RUN) -m tests.cold.kills $(ARGS)

properties: set-up
	@EXAMPLES=1 $(RUN) -m pytest -n 2 tests/property tests/topics/test_filters.py tests/cold/test_cold_block.py $(ARGS)

cold-property: set-up
	@$(RUN) -m tests.cold.property --minutes $(MINUTES) $(ARGS)

differential: set-up
	@$(RUN) -m tests.differential $(ARGS)

test-programs: set-up
	@$(RUN) scripts/programs.py $(ARGS)

redis-tests: set-up
	@$(RUN) -m tests.redis_suite $(ARGS)

topics-long: set-up
	@$(RUN) -m tests.topics $(ARGS)

mqtt-long: set-up
	@$(RUN) -m pytest -m long -n 2 tests/mqtt $(ARGS)

mqtt-chaos: set-up
	@$(RUN) -m tests.mqtt.chaos $(ARGS)

mqtt-chaos-whole: set-up
	@$(RUN) -m tests.mqtt.chaos.whole $(ARGS)

chaos: chaos-newest chaos-spark40

chaos-newest: set-up
	@$(RUN) -m tests.spark.chaos $(ARGS)

chaos-cluster: set-up
	@$(RUN) -m tests.spark.failovers $(ARGS)

# Without ARGS: each Sentinel's half of 100 failovers, and then some under a Spark query, which takes longer for each.
failover: set-up
	@$(RUN) -m tests.failover $(or $(ARGS),--runs 100 --sentinel both)
	@$(if $(ARGS),,$(RUN) -m tests.failover --runs 12 --with producers,groups,spark)

chaos-spark40: set-up
	@$(RUN) scripts/older_spark.py 40 -m tests.spark.chaos $(ARGS)

chaos-commands: set-up
	@$(RUN) -m pytest -m rare tests/spark/test_commands.py $(ARGS)

spark-long: set-up
	@$(RUN) -m pytest -m long tests/spark $(ARGS)

compiled: set-up-server
	@$(RUN) scripts/compiled.py $(ARGS)

test-compiled: set-up
	@$(RUN) scripts/compiled.py test $(ARGS)

test-spark40 test-spark41 test-spark42: test-spark%: set-up
	@$(RUN) scripts/older_spark.py $* $(ARGS)

notebook: set-up
	@$(RUN) scripts/run_notebook.py examples/orders.ipynb $(ARGS)
	@$(RUN) scripts/run_notebook.py examples/topics.ipynb $(ARGS)
	@$(RUN) scripts/run_notebook.py examples/mqtt.ipynb $(ARGS)

examples: set-up
	@for example in examples/*.py; do echo "== $$example"; $(RUN) $$example || exit 1; done

bench-long: set-up
	@$(RUN) -m bench long $(ARGS)

bench-proposal: set-up
	@$(RUN) -m bench.proposal $(ARGS)

bench-spark: set-up
	@$(RUN) -m bench.spark_beside $(ARGS)
	@$(RUN) -m scripts.tables_speed

bench-trees: set-up
	@$(RUN) -m bench.trees $(OTHER) $(ARGS)

latency: set-up
	@$(RUN) -m bench.latency $(ARGS)

lint: set-up
	@$(RUN) -m ruff check .
	@$(RUN) -m mypy
	@$(RUN) -c "from importlinter.cli import lint_imports_command as lint; lint()"

dist: set-up
	@$(RUN) scripts/dist.py $(ARGS)

check-deploy:
	@python3 scripts/check_deploy.py

pictures: set-up
	@$(RUN) -m scripts.pictures_failures
	@$(RUN) -m bench.plots
	@$(RUN) -m scripts.tables_speed
	@$(RUN) -m scripts.pictures_terminal
	@$(RUN) -m scripts.pictures_idempotence
	@$(RUN) -m scripts.pictures_mqtt
	@$(RUN) -m scripts.pictures_ui
	@$(RUN) -m scripts.pictures_ui_mqtt

docs: set-up
	@$(RUN) scripts/site.py $(ARGS)
	@STREAMD_SITE=build/site $(RUN) -m pytest tests/documents/test_site_browser.py

docs-serve: set-up
	@exec $(RUN) scripts/site.py serve $(ARGS)

map: set-up
	@$(RUN) scripts/map.py

set-up:
	@PYTHON="$(PYTHON)" sh scripts/set_up.sh

set-up-server:
	@PYTHON="$(PYTHON)" sh scripts/set_up.sh server

clean:
	rm -rf .venv .venv-compiled .venv-dist .venv-docs .venv-programs .venv-spark4? .java build dist ./*.egg-info
	rm -rf .hypothesis .mypy_cache .ruff_cache .import_linter_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
