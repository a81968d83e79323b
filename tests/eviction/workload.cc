#include "tests/eviction/workload.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <list>
#include <numeric>
#include <random>

namespace forebay::testing {
namespace {

constexpr std::uint32_t kStopsInEpoch = 4;
constexpr double kTwiceLag = 0.1;

/// The pages of one training machine, least recently used first out.
class PageCache {
 public:
  explicit PageCache(std::size_t most) : most_(most) {}

  bool Read(std::uint32_t block) {
    if (most_ == 0) return false;
    if (block >= where_.size()) where_.resize(block + 1, pages_.end());
    if (where_[block] != pages_.end()) {
      pages_.splice(pages_.begin(), pages_, where_[block]);
      return true;
    }
    pages_.push_front(block);
    where_[block] = pages_.begin();
    if (pages_.size() > most_) {
      where_[pages_.back()] = pages_.end();
      pages_.pop_back();
    }
    return false;
  }

 private:
  std::size_t most_;
  std::list<std::uint32_t> pages_;
  std::vector<std::list<std::uint32_t>::iterator> where_;
};

/// One job's reads, in its own order.
class Loader {
 public:
  Loader(const Workload& workload, std::uint32_t job)
      : workload_(workload),
        job_(job),
        random_(job * 7919 + 7),
        pages_(static_cast<std::size_t>(workload.page_cache * workload.blocks)) {
    Begin();
  }

  bool done() const { return done_; }

  /// Nothing: the page cache had it.
  std::optional<BlockRead> Next() {
    if (pending_.empty()) Produce();
    BlockRead read = pending_.front();
    pending_.pop_front();
    Finish();
    if (pages_.Read(read.block)) return std::nullopt;
    return read;
  }

 private:
  bool Switched() const {
    return workload_.switches != Workload::Switch::kNone && epoch_ >= workload_.epochs / 2;
  }
  std::uint32_t TrainBlocks() const {
    const double train = workload_.blocks * (1 - workload_.validation);
    return static_cast<std::uint32_t>(train * (workload_.reads_half == job_ ? 0.5 : 1));
  }

  void Begin() {
    order_.clear();
    next_ = 0;
    for (std::uint32_t sample = 0; sample < workload_.samples_per_block; ++sample) {
      for (std::uint32_t block = 0; block < TrainBlocks(); ++block) order_.push_back(block);
    }
    if (!workload_.in_order && workload_.reads_in_order != job_) Shuffle();
    if (workload_.reads_twice == job_) ReadTwice();
  }

  /// Fisher and Yates; std::shuffle may differ between libraries.
  void Shuffle() {
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_() % i]);
  }

  void ReadTwice() {
    const std::vector<std::uint32_t> once = std::move(order_);
    const auto lag = static_cast<std::size_t>(static_cast<double>(once.size()) * kTwiceLag);
    order_.clear();
    for (std::size_t i = 0; i < once.size() + lag; ++i) {
      if (i < once.size()) order_.push_back(once[i]);
      if (i >= lag) order_.push_back(once[i - lag]);
    }
  }

  void Produce() {
    const std::uint32_t block = order_[next_++];
    for (std::uint32_t i = 0; i < workload_.reads_in_a_row; ++i) Push(block);
    if (workload_.early_rereads > 0 &&
        static_cast<double>(random_() % 100'000) < workload_.early_rereads * 1e5) {
      Push(order_[random_() % next_]);
    }
    if (workload_.validations > 0 && next_ % (order_.size() / workload_.validations) == 0) {
      for (std::uint32_t b = TrainBlocks(); b < workload_.blocks; ++b) Push(b);
    }
  }

  void Push(std::uint32_t block) {
    const bool other = Switched();
    pending_.push_back({.job = other && workload_.new_jobs ? job_ + workload_.jobs : job_,
                        .link = other && workload_.switches == Workload::Switch::kLink ? 1U : 0U,
                        .block = other ? block + workload_.blocks : block,
                        .epoch = epoch_,
                        .left = static_cast<std::uint32_t>(order_.size() - next_)});
  }

  void Finish() {
    if (!pending_.empty()) return;
    if (workload_.stops == job_ && epoch_ == kStopsInEpoch && next_ > order_.size() / 2)
      done_ = true;
    if (next_ < order_.size()) return;
    ++epoch_;
    if (epoch_ == workload_.epochs) done_ = true;
    if (!done_) Begin();
  }

  const Workload& workload_;
  const std::uint32_t job_;
  std::mt19937_64 random_;
  PageCache pages_;
  std::vector<std::uint32_t> order_;
  std::size_t next_ = 0;
  std::uint32_t epoch_ = 0;
  std::deque<BlockRead> pending_;
  bool done_ = false;
};

/// The part of an epoch that the job begins later than the first: spread evenly, for any number.
double Phase(std::uint32_t job) {
  const double golden = job * 0.618;
  return golden - std::floor(golden);
}

}  // namespace

Trace MakeTrace(const Workload& workload) {
  std::vector<Loader> loaders;
  loaders.reserve(workload.jobs);
  for (std::uint32_t job = 0; job < workload.jobs; ++job) loaders.emplace_back(workload, job);
  std::vector<double> speeds = workload.speeds;
  speeds.resize(workload.jobs, 1);
  const double all = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  const double epoch_rounds =
      static_cast<double>(workload.blocks) * workload.samples_per_block * workload.reads_in_a_row;
  std::vector<double> credit(workload.jobs, 0);
  Trace trace;
  trace.jobs = workload.jobs * 2;
  trace.blocks = workload.blocks * 2;
  // Until the first has finished: what follows would be another mixture.
  for (double round = 0;; round += 1.0 / workload.jobs) {
    std::optional<std::uint32_t> turn;
    for (std::uint32_t job = 0; job < workload.jobs; ++job) {
      const bool begun = workload.in_step || round >= Phase(job) * epoch_rounds;
      if (!begun || (loaders[job].done() && workload.stops == job)) continue;
      credit[job] += speeds[job] / all;
      if (!turn || credit[job] > credit[*turn]) turn = job;
    }
    if (!turn) continue;
    if (loaders[*turn].done()) break;
    credit[*turn] -= 1;
    if (const auto read = loaders[*turn].Next()) trace.reads.push_back(*read);
  }
  trace.measured_from =
      static_cast<std::size_t>(static_cast<double>(trace.reads.size()) * workload.measured_from);
  return trace;
}

Workload CleanWorkload(std::uint32_t jobs, std::uint32_t blocks) {
  return {.name = "permutations", .jobs = jobs, .blocks = blocks};
}

std::vector<Workload> LoaderWorkloads(std::uint32_t blocks) {
  using Switch = Workload::Switch;
  std::vector<Workload> all;
  for (const std::uint32_t jobs : {1U, 2U, 8U}) {
    all.push_back(
        {.name = "1 % early re-reads", .jobs = jobs, .blocks = blocks, .early_rereads = 0.01});
    all.push_back({.name = "three epochs only", .jobs = jobs, .blocks = blocks, .epochs = 3});
  }
  for (const std::uint32_t jobs : {1U, 2U}) {
    Workload base{.name = "", .jobs = jobs, .blocks = blocks};
    const auto add = [&](const std::string& name, auto change) {
      Workload one = base;
      one.name = name;
      change(one);
      all.push_back(std::move(one));
    };
    add("5 % validation 4x an epoch", [](Workload& w) { w.validation = 0.05, w.validations = 4; });
    add("4 READs of a block", [](Workload& w) { w.reads_in_a_row = 4; });
    add("16 READs of a block", [](Workload& w) { w.reads_in_a_row = 16; });
    add("16 random samples a block", [](Workload& w) { w.blocks /= 8, w.samples_per_block = 16; });
    add("one reads each block twice", [](Workload& w) { w.reads_twice = 0; });
    add("40 % in page caches", [](Workload& w) { w.page_cache = 0.4; });
    add("the same order each epoch", [](Workload& w) { w.in_order = true; });
    add("few blocks", [](Workload& w) { w.blocks /= 16; });
    // From when on all are in their second epoch of the other data set: of two, one comes later.
    const double second_epoch = jobs == 1 ? 0.585 : 0.63;
    for (const bool new_jobs : {false, true}) {
      const std::string whose = new_jobs ? ", new jobs" : ", same jobs";
      add("switch of the link" + whose, [&](Workload& w) {
        w.switches = Switch::kLink, w.new_jobs = new_jobs, w.measured_from = second_epoch;
      });
      add("switch of the folder" + whose, [&](Workload& w) {
        w.switches = Switch::kFolder, w.new_jobs = new_jobs, w.measured_from = second_epoch;
      });
    }
  }
  all.push_back({.name = "jobs at speeds 1:2:4", .jobs = 3, .blocks = blocks, .speeds = {1, 2, 4}});
  all.push_back({.name = "one stops in mid-epoch", .jobs = 2, .blocks = blocks, .stops = 1});
  all.push_back({.name = "one reads half of it", .jobs = 2, .blocks = blocks, .reads_half = 1});
  all.push_back(
      {.name = "one in order, one random", .jobs = 2, .blocks = blocks, .reads_in_order = 0});
  all.push_back({.name = "jobs in step", .jobs = 2, .blocks = blocks, .in_step = true});
  return all;
}

}  // namespace forebay::testing
