"""Which figures of a run of ops/bench are plotted, and beside what. It takes the JSON alone, so that an older run is drawn
as a new one is; what a run did not measure is left out."""

import statistics

import bench_epochs
import bench_preload
from bench_html import FOREBAY, NATIVE, PEER, Chart, Row, Section, rounds_text


def sections(document):
    if "walks" in document:  # the JSON of `ops/bench namespace` before it had a machine
        document = {"namespace": document}
    for workload in document.get("workloads") or []:
        yield _files(workload)
    for training in document.get("training") or []:
        yield _training(training)
    for key, draw in DRAWN.items():
        if document.get(key):
            yield draw(document[key])


def whose(subject):
    return FOREBAY if subject["forebay"] else NATIVE if subject["key"].startswith("native") else PEER


def _files(workload):
    readers = workload["readers"]
    last = readers[-1]
    found = {(row["subject"], row["readers"]): row for row in workload["medians"]}
    # Before there were pieces of shards, a workload did not say its unit.
    unit = workload.get("unit") or ("files/s" if workload["name"] == "small" else "GB/s")
    field = "gb_per_second" if unit == "GB/s" else "files_per_second"

    def rows(value, numbers=(last,), only=lambda subject: True):
        return [Row(subject["title"], whose(subject),
                    [value(found[subject["key"], number]) if (subject["key"], number) in found else None
                     for number in numbers])
                for subject in workload["subjects"] if only(subject)]

    names = [f"{number} reader{'s' if number > 1 else ''}" for number in readers]
    charts = [
        Chart(unit, "More is better.", names, rows(lambda row: row[field], readers)),
        Chart("Against the local file system, page cache dropped", f"Times its {unit} in the same round, {last} readers.",
              [""], rows(lambda row: row["against"].get("native_cold"))),
        Chart("CPU seconds for each GB", f"Reader and daemons, {last} readers. Less is better.", [""],
              rows(lambda row: row["cpu_seconds_per_gb"])),
        Chart("FUSE messages for each file", f"After a walk, {last} readers. Less is better.", [""],
              rows(lambda row: row["messages_per_file"], only=lambda subject: subject.get("mounted", subject["forebay"]))),
        Chart("GETs for each block", "All reads of a round, as S3 counts them.", [""],
              rows(lambda row: row["gets_per_block"], only=lambda subject: whose(subject) != NATIVE)),
    ]
    if workload.get("layers"):
        charts.append(Chart("Parts of the CPU time of warm reads", f"Of reader and daemons together, {last} readers; the checksums "
                            "are within them.", ["reader", "daemons", "checksums"],
                            [Row(row["title"], FOREBAY, [row["reader"], row["daemons"], row["checksums"]])
                             for row in workload["layers"]]))
    return Section(workload["name"], f"{workload['files']:,} files, {workload['bytes'] / 1e6:,.0f} MB, {workload['blocks']:,} "
                   f"blocks. {rounds_text(workload['rounds'])}", charts)


def _training(training):
    numbers = range(1, training["epochs"] + 1)
    names = [f"epoch {number}" for number in numbers]

    def chart(title, note, field, subjects, only=lambda name: True):
        return Chart(title, note, names, [
            Row(name, FOREBAY if bench_epochs.is_forebay(name) else NATIVE if name == "native" else PEER,
                [epochs[number][field] for number in numbers])
            for name, epochs in subjects.items() if only(name)])

    charts = []
    for (workers, jobs, cache), subjects in bench_epochs.plans_of(training).items():
        plan = bench_epochs.Plan(workers, jobs, cache).title
        charts += [
            chart(f"samples/s, {plan}", "All jobs together. More is better.", "samples_per_second", subjects),
            chart(f"seconds to the first batch, {plan}", "Of the slower job. Less is better.", "first_batch_seconds", subjects),
            chart(f"GETs for each block, {plan}", "As S3 counts them, all jobs together.", "gets_per_block", subjects,
                  lambda name: name != "native")]
    return Section(training["name"], bench_epochs.title_of(training), charts)


def _cold(cold):
    def rows(field):
        return [Row(row["title"], FOREBAY if row["forebay"] else NATIVE if row["row"] == "raw" else PEER, [row[field]])
                for row in cold["rows"]]

    return Section("cold", f"{cold['files']:,} files, S3 {cold['delay_ms']} ms away, {cold['connections']} connections, "
                   f"{cold['readers']} readers. {rounds_text(cold['rounds'])}", [
        Chart("files/s of a first epoch", "More is better.", [""], rows("files_per_second")),
        Chart("GETs for each block", "As S3 counts them.", [""], rows("gets_per_block"))])


def _store(store):
    steps = (("write_s", "taken"), ("durable_s", "durable"), ("warm_s", "read warm"), ("cold_s", "read cold"))

    def rows(rates):
        for subject in dict.fromkeys(run["subject"] for run in rates["runs"]):
            runs = [run for run in rates["runs"] if run["subject"] == subject]
            yield Row(subject, FOREBAY if subject == "store" else NATIVE,
                      [rates["objects"] / statistics.median(run[key] for run in runs) for key, _ in steps])

    return Section("store", "A node's store alone, beside one file for each object and one raw file.", [
        Chart(f"objects/s, {rates['length']:,} bytes each", "More is better.", [title for _, title in steps],
              list(rows(rates))) for rates in store["rates"]])


def _eviction(eviction):
    others = ("no_evict", "lru", "oracle", "belady")

    def chart(title, kept):
        return Chart(title, "The part of the reads that cost no GET. More is better.", ["node", *others], [
            Row(f"{row['workload']}, {row['jobs']} job{'s' if row['jobs'] > 1 else ''}, c = {row['part']}", FOREBAY,
                [row[key]["hit_rate"] for key in ("node", *others)]) for row in kept])

    return Section("eviction", "Hit rates of a cache that is too small.",
                   [chart("the choice of what to evict", eviction["choice"]), chart("all of a node", eviction["whole"])])


def _namespace(namespace):
    median = statistics.median
    return Section("namespace", f"{namespace['keys']:,} keys. {rounds_text(namespace['rounds'])}", [
        Chart("keys listed a second", "More is better.", [""], [
            Row(name, FOREBAY if name.startswith("forebay") else PEER, [median(rates)])
            for name, rates in namespace["rates"].items()]),
        Chart("files met by find a second", "More is better.", ["first", "second"], [
            Row(name, NATIVE if name == "native" else FOREBAY, [median(walks["first"]), median(walks["second"])])
            for name, walks in namespace["walks"].items()])])


def _bandwidth(bandwidth):
    bound = bandwidth["bound_bytes_per_second"]
    return Section("bandwidth", f"Nodes with --max-bandwidth {bound >> 20}MiB. {rounds_text(bandwidth['rounds'])}", [
        Chart("MiB/s", "More is better, N times the bound is all.", list(bandwidth["rates"]), [
            Row("forebay", FOREBAY, [statistics.median(rates) / 2**20 for rates in bandwidth["rates"].values()]),
            Row("N times the bound", NATIVE, [int(nodes) * bound / 2**20 for nodes in bandwidth["rates"]])])])


def _preload(preload):
    rates = preload["rates"]
    return Section("preload", f"{preload['bytes'] / 1e6:,.0f} MB, one node. {rounds_text(preload['rounds'])}", [
        Chart("MB/s", "More is better; the slower of the two others is the limit.", [""], [
            Row(title, FOREBAY if row == "preload" else NATIVE, [statistics.median(rates[row]) / 1e6])
            for row, title in bench_preload.ROWS])])


DRAWN = {"preload": _preload, "bandwidth": _bandwidth, "cold": _cold, "store": _store, "eviction": _eviction, "namespace": _namespace}
