#include "cachenode/peer_source.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "cachenode/fill_order.h"
#include "common/ring/ring.h"
#include "common/wire/block_messages.h"
#include "proto/node.pb.h"

namespace forebay {
namespace {

// Between two questions to a node that is still looking for the block itself.
constexpr std::chrono::milliseconds kAskAgain{20};
// Who was heard so long ago needs no probe.
constexpr std::chrono::seconds kFresh{1};
// How often this process looks at the clock, and the gap that says that it was stopped: readers
// have gone to the next owners meanwhile.
constexpr std::chrono::milliseconds kPulse{500};
constexpr std::chrono::seconds kPaused{2};
// Between two looks whether a node is back that is being restarted.
constexpr std::chrono::milliseconds kLookForRestart{20};
// What others filled in our absence is looked for as long as the ring remembers former owners.
constexpr std::chrono::seconds kAwayMemory{kPreviousOwnerMemory};

BlockRequest RequestFor(const ColdBlock& cold, BlockRange range) {
  BlockRequest request;
  request.link = cold.link->id;
  request.block = cold.block;
  request.range = range;
  request.object = cold.object;
  request.peer_only = true;
  return request;
}

}  // namespace

PeerSource::PeerSource(PeerSourceOptions options, ClusterView& cluster)
    : options_(std::move(options)), cluster_(cluster) {
  ClientPoolOptions pool;
  pool.credentials = options_.credentials;
  pool.silence = options_.silence;
  pool.connect_timeout = ConnectPart(options_.silence);
  // A newer table reaches this node with its heartbeats.
  pool_ = std::make_unique<ClientPool>(
      io_.At(0), std::move(pool), [this] { return cluster_.ring_epoch(); }, [](std::uint64_t) {});
}

PeerSource::~PeerSource() { Stop(); }

void PeerSource::Start(bool was_away) {
  if (was_away) NoteAway();
  io_.Start();
  Spawn(io_.At(0), NoticePauses());
}

void PeerSource::Interrupt() {
  if (stopped_.exchange(true)) return;
  asio::post(io_.At(0), [this] { pool_->Close(); });
}

void PeerSource::Stop() {
  Interrupt();
  io_.Stop();
  pool_.reset();
}

Task<void> PeerSource::NoticePauses() {
  TimePoint last = Clock::now();
  while (!stopped_) {
    co_await SleepFor(kPulse);
    const TimePoint now = Clock::now();
    if (now - last > kPaused) {
      spdlog::warn("this node was paused for {} s; what it lacks is looked for at other owners",
                   std::chrono::duration_cast<std::chrono::seconds>(now - last).count());
      NoteAway();
    }
    last = now;
  }
}

// Others have filled, or may fill, what is this node's.
void PeerSource::NoteAway() {
  away_until_ = (Clock::now() + kAwayMemory).time_since_epoch().count();
}

bool PeerSource::WasAway() const {
  return Clock::now().time_since_epoch().count() < away_until_.load();
}

std::vector<PeerSource::Place> PeerSource::PlacesFor(const ColdBlock& cold,
                                                     const RingTable& table) const {
  std::vector<Place> places;
  std::vector<Place> behind;
  const std::uint32_t partition = PartitionOf(cold.block);
  bool ahead = true;
  std::size_t rank = 0;
  for (const std::uint16_t index : table.OwnersOf(partition)) {
    const NodeInfo& node = table.nodes()[index];
    const bool has_copy = rank++ < cold.link->replicas;
    if (node.id == options_.self) {
      ahead = false;
    } else if (ahead) {
      places.push_back(Place{&node, ahead});
    } else if (has_copy || cold.copy || WasAway()) {
      behind.push_back(Place{&node, ahead});
    }
  }
  for (const PreviousOwner& owner : table.PreviousOwnersOf(partition)) {
    const NodeInfo* node = table.Find(owner.node_id);
    const auto same = [node](const Place& place) { return place.node == node; };
    if (node == nullptr || node->id == options_.self) continue;
    if (!std::ranges::any_of(places, same)) places.push_back(Place{node, false});
  }
  // One that is to go may hold anything: also what it filled in others' place.
  for (const NodeInfo& node : table.nodes()) {
    if (node.state != NodeState::kDraining || node.id == options_.self) continue;
    const auto same = [&node](const Place& place) { return place.node == &node; };
    if (!std::ranges::any_of(places, same)) places.push_back(Place{&node, false});
  }
  for (const Place& place : behind) {
    const auto same = [&](const Place& other) { return other.node == place.node; };
    if (!std::ranges::any_of(places, same)) places.push_back(place);
  }
  PutNearFirst(places, cold, table);
  std::erase_if(places, [this](const Place& place) { return IsOutOfReach(place); });
  return places;
}

bool PeerSource::IsNear(const NodeInfo& node) const {
  return !options_.zone.empty() && node.zone == options_.zone;
}

// Only of those who both say where they lie.
bool PeerSource::IsInAnotherZone(const NodeInfo& node) const {
  return !options_.zone.empty() && !node.zone.empty() && node.zone != options_.zone;
}

// The owners ahead stay where they are: the first of them that lives is the filler.
void PeerSource::PutNearFirst(std::vector<Place>& places, const ColdBlock& cold,
                              const RingTable& table) const {
  if (options_.zone.empty()) return;
  std::vector<Place> ahead;
  std::vector<Place> here;
  std::vector<Place> elsewhere;
  for (const Place& place : places)
    (place.ahead ? ahead : IsNear(*place.node) ? here : elsewhere).push_back(place);
  places = std::move(ahead);
  places.insert(places.end(), here.begin(), here.end());
  places.insert(places.end(), elsewhere.begin(), elsewhere.end());
  // Who is the filler, or may be, has nothing that it would not give when it is asked as such.
  if (places.empty() || !places.front().ahead || IsNear(*places.front().node)) return;
  std::vector<Place> near;
  std::size_t rank = 0;
  for (const std::uint16_t index : table.OwnersOf(PartitionOf(cold.block))) {
    const NodeInfo& node = table.nodes()[index];
    if (rank++ >= cold.link->replicas) break;
    const auto same = [&node](const Place& place) { return place.node == &node; };
    const auto place = std::ranges::find_if(places, same);
    if (!IsNear(node) || place == places.end()) continue;
    near.push_back(Place{.node = &node, .ahead = false, .in_passing = place->ahead});
    if (!place->ahead) places.erase(place);
  }
  places.insert(places.begin(), near.begin(), near.end());
}

bool PeerSource::IsOutOfReach(const Place& place) const {
  const std::string& id = place.node->id;
  return health_.IsSilent(id) && !(place.ahead && MayRestart(id));
}

bool PeerSource::MayRestart(const std::string& node) const {
  const std::scoped_lock lock(restarts_mutex_);
  const auto until = restarts_.find(node);
  return until != restarts_.end() && Clock::now() < until->second;
}

bool PeerSource::MayHave(const ColdBlock& cold) const {
  const std::shared_ptr<const RingTable> table = cluster_.ring();
  return !stopped_ && !PlacesFor(cold, *table).empty();
}

Task<Result<PeerFind>> PeerSource::Get(ColdBlock cold, PeerSink& sink, Deadline deadline) {
  const Duration waited = std::min(cold.waited, options_.restart);
  Question question{std::move(cold), &sink, deadline, Clock::now() + options_.restart - waited};
  Result<PeerFind> find =
      co_await asio::co_spawn(io_.At(0), AskAll(std::move(question)), asio::use_awaitable);
  co_return find;
}

Task<Result<PeerFind>> PeerSource::AskAll(Question question) {
  const std::shared_ptr<const RingTable> table = cluster_.ring();
  const std::vector<Place> places = PlacesFor(question.cold, *table);
  Result<PeerFind> find = PeerFind();
  for (const Place& place : places) {
    if (stopped_ || question.deadline.Expired()) break;
    // Found silent since the list was made, by somebody else's question.
    if (IsOutOfReach(place)) continue;
    if (place.ahead) {
      find = co_await AskAhead(&question, place.node);
    } else {
      find = co_await AskBehind(&question, place.node);
      // As where it is waited for: an earlier owner keeps the block.
      if (place.in_passing) find->keep = false;
    }
    if (!find || find->found) break;
  }
  if (!find || !find->found) co_return find;
  const auto rank = table->RankOf(PartitionOf(question.cold.block), options_.self);
  find->copy = rank && *rank > 0 && *rank < question.cold.link->replicas;
  find->keep = find->keep || find->copy;
  co_return find;
}

// A live earlier owner is the filler: it is waited for as long as it says so.
Task<Result<PeerFind>> PeerSource::AskAhead(const Question* question, const NodeInfo* node) {
  PeerFind find;
  find.keep = false;
  if (question->cold.passed_over) {
    bool alive = !health_.IsSilent(node->id);
    if (alive) alive = co_await IsAlive(node, options_.doubt);
    if (!alive) alive = co_await WaitForRestart(question, node);
    if (!alive) co_return find;
  }
  const Deadline patience = question->deadline.AtMost(options_.silence);
  bool told_to_begin = false;
  while (!stopped_) {
    const Status got = co_await Fetch(question, node);
    find.found = got.has_value();
    if (got) co_return find;
    const Code code = got.error().code;
    if (code == Code::kStale || code == Code::kTimeout) co_return Fail(got.error());
    if (code == Code::kOverloaded && !patience.Expired()) {
      co_await SleepFor(kAskAgain);
      continue;
    }
    if (code == Code::kUnavailable && !patience.Expired()) {
      const bool back = co_await WaitForRestart(question, node);
      if (back) continue;
    }
    if (code != Code::kNotFound || told_to_begin || question->cold.peers_only) break;
    told_to_begin = true;
    const bool began = co_await BeginGet(question, node);
    if (began) question->sink->MarkGet();
    // One that fell silent at this is not asked a second time.
    if (!began && health_.IsSilent(node->id)) {
      const bool back = co_await WaitForRestart(question, node);
      if (!back) break;
    }
  }
  co_return PeerFind();
}

// True: it answers again. Its probe, which somebody else runs, finds out.
Task<bool> PeerSource::WaitForRestart(const Question* question, const NodeInfo* node) {
  while (!stopped_ && !question->deadline.Expired() && MayRestart(node->id) &&
         Clock::now() < question->restarts_until) {
    co_await SleepFor(kLookForRestart);
    // One that has left the ring is not probed any more, and then does not count as silent either.
    const bool silent = health_.IsSilent(node->id);
    const std::shared_ptr<const RingTable> table = cluster_.ring();
    if (table->Find(node->id) == nullptr) break;
    if (!silent) co_return true;
  }
  co_return false;
}

Task<Result<PeerFind>> PeerSource::AskBehind(const Question* question, const NodeInfo* node) {
  PeerFind find;
  const auto heard = heard_.find(node->id);
  if (heard == heard_.end() || Clock::now() - heard->second > kFresh) {
    const bool alive = co_await IsAlive(node, options_.look);
    if (!alive) co_return find;
  }
  const Status got = co_await Fetch(question, node);
  find.found = got.has_value();
  co_return find;
}

// The cells that are wanted first come first: whoever fills the block answers each question as soon
// as it can.
Task<Status> PeerSource::Fetch(const Question* question, const NodeInfo* node) {
  const std::uint32_t length = question->cold.block.length;
  const std::vector<BlockRange> parts = PartsFrom(FirstCells(question->cold), length);
  Status got;
  for (const BlockRange& part : parts) {
    got = co_await FetchPart(question, node, part);
    if (!got) break;
  }
  co_return got;
}

Task<Status> PeerSource::FetchPart(const Question* question, const NodeInfo* node,
                                   BlockRange part) {
  for (std::uint32_t begin = part.begin; begin < part.end; begin += kBlockPartBytes) {
    const BlockRange range{begin, std::min(begin + kBlockPartBytes, part.end)};
    BlockRequest request = RequestFor(question->cold, range);
    request.cross_zone = IsInAnotherZone(*node);
    const proto::ReadBlockRequest message = ToProto(request);
    const TimePoint asked = Clock::now();
    Result<RpcReply> reply =
        co_await pool_->Call(node->address, Method::kReadBlock, message, question->deadline);
    if (!reply) {
      NoteFailure(*node, reply.error(), Clock::now() - asked < options_.silence);
      co_return Fail(reply.error());
    }
    heard_[node->id] = Clock::now();
    const Result<Cells> cells = CellsOfReply(request, std::move(*reply));
    if (!cells) {
      spdlog::warn("node {} answered {}", node->id, cells.error().message);
      co_return Fail(cells.error());
    }
    if (begin == part.begin) {
      question->sink->BeginPart(part);
      question->sink->OnAttempt();
    }
    question->sink->OnData(cells->Part(range));
  }
  co_return Status();
}

// True: it has begun one. False: it has one under way, or cannot; another question will tell.
Task<bool> PeerSource::BeginGet(const Question* question, const NodeInfo* node) {
  const Result<proto::PrefetchBlockReply> reply = co_await TellToGet(question, node, false);
  co_return reply && reply->started();
}

Task<Result<proto::PrefetchBlockReply>> PeerSource::TellToGet(const Question* question,
                                                              const NodeInfo* node, bool stand_in) {
  const BlockRange first = FirstCells(question->cold);
  BlockRequest request = RequestFor(question->cold, first);
  request.stand_in = stand_in;
  const proto::ReadBlockRequest message = ToProto(request);
  const TimePoint asked = Clock::now();
  const Result<RpcReply> reply =
      co_await pool_->Call(node->address, Method::kPrefetchBlock, message, question->deadline);
  if (!reply) {
    NoteFailure(*node, reply.error(), Clock::now() - asked < options_.silence);
    co_return Fail(reply.error());
  }
  proto::PrefetchBlockReply answer;
  const Status parsed = ParseMessage(reply->message, answer);
  if (!parsed) co_return Fail(parsed.error());
  co_return answer;
}

Task<bool> PeerSource::IsAlive(const NodeInfo* node, Duration patience) {
  const Deadline deadline = Deadline::After(patience);
  const bool answers = co_await AnswersProbe(pool_.get(), node->address, deadline);
  if (answers) {
    heard_[node->id] = Clock::now();
  } else {
    const Error silent{Code::kUnavailable, "no answer"};
    NoteFailure(*node, silent, !deadline.Expired());
  }
  co_return answers;
}

void PeerSource::NoteFailure(const NodeInfo& node, const Error& error, bool at_once) {
  if (error.code != Code::kUnavailable || stopped_) return;
  {
    // Before it counts as silent: from then on it is asked no more, unless it may come back soon.
    const std::scoped_lock lock(restarts_mutex_);
    if (health_.IsSilent(node.id)) return;
    restarts_[node.id] = at_once ? Clock::now() + options_.restart : TimePoint();
  }
  if (!health_.Failed(node.id)) return;
  spdlog::warn("cache node {} at {} does not answer this node", node.id, node.address);
  Spawn(io_.At(0), Probe(node.id, node.address));
}

Task<void> PeerSource::Probe(std::string id, std::string address) {
  // Its place in the ring may go meanwhile, or come again with another address.
  auto over = [this, id, address] {
    const std::shared_ptr<const RingTable> table = cluster_.ring();
    const NodeInfo* node = table->Find(id);
    return stopped_ || node == nullptr || node->address != address;
  };
  const bool back = co_await ProbeUntilBack(pool_.get(), address, options_.probes, std::move(over));
  if (back) spdlog::info("cache node {} answers this node again", id);
  health_.Recovered(id);
}

}  // namespace forebay
