#include "coordinator/pin_book.h"

#include <algorithm>

#include "common/wire/messages.h"
#include "coordinator/records.h"

namespace forebay {
namespace {

constexpr const char* kPrefix = "pin/";

std::string KeyOf(const Uuid& link, const std::string& path) {
  return kPrefix + link.ToString() + "/" + path;
}

/// The record as LinkSpec::pins has it.
std::string RuleOf(const proto::PinRecord& pin) {
  return pin.path().empty() || !pin.folder() ? pin.path() : pin.path() + "/";
}

}  // namespace

std::uint64_t PinnedBytes(const std::vector<proto::PinRecord>& pins) {
  std::uint64_t bytes = 0;
  for (const proto::PinRecord& pin : Uncovered(pins)) bytes += pin.bytes();
  return bytes;
}

std::vector<proto::PinRecord> Uncovered(const std::vector<proto::PinRecord>& pins) {
  std::vector<proto::PinRecord> uncovered;
  for (const proto::PinRecord& pin : pins) {
    const bool covered = std::ranges::any_of(pins, [&](const proto::PinRecord& other) {
      return other.link() == pin.link() && other.path() != pin.path() &&
             PinsCover({RuleOf(other)}, RuleOf(pin));
    });
    if (!covered) uncovered.push_back(pin);
  }
  return uncovered;
}

Status PinBook::Load() {
  auto rows = store_.Scan(kPrefix);
  if (!rows) return Fail(rows.error());
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, value] : *rows) {
    proto::PinRecord pin;
    Status decoded = DecodeRecord(value, pin);
    if (!decoded) return Fail(decoded.error().Within("reading " + key));
    pins_[{UuidFromBytes(pin.link()), pin.path()}] = pin;
  }
  return {};
}

Status PinBook::Write(const Uuid& link, std::map<Key, proto::PinRecord> next, StateBatch batch) {
  std::vector<std::string> rules;
  for (const auto& [key, pin] : next) {
    if (key.first == link) rules.push_back(RuleOf(pin));
  }
  const auto change = [&rules](LinkSpec& spec, std::uint64_t version) {
    const auto of_paths = [](std::vector<std::string> all) {
      std::erase(all, std::string());
      return all;
    };
    if (of_paths(spec.pins) != of_paths(rules)) spec.pins_version = version;
    spec.pins = rules;
  };
  Status written = links_.Decide(link, change, std::move(batch));
  if (!written) return written;
  const std::scoped_lock lock(mutex_);
  pins_ = std::move(next);
  return {};
}

Result<bool> PinBook::Put(const proto::PinRecord& pin) {
  const std::scoped_lock changing(change_mutex_);
  std::map<Key, proto::PinRecord> next;
  {
    const std::scoped_lock lock(mutex_);
    next = pins_;
  }
  const Uuid link = UuidFromBytes(pin.link());
  proto::PinRecord wanted = pin;
  const auto there = next.find({link, pin.path()});
  if (there != next.end()) wanted.set_since_unix_s(there->second.since_unix_s());
  const bool same =
      there != next.end() && there->second.SerializeAsString() == wanted.SerializeAsString();
  if (same) return false;
  next[{link, pin.path()}] = wanted;
  StateBatch batch;
  batch.Put(KeyOf(link, pin.path()), wanted.SerializeAsString());
  Status written = Write(link, std::move(next), std::move(batch));
  if (!written) return Fail(written.error());
  return true;
}

Result<bool> PinBook::Remove(const Uuid& link, const std::string& path) {
  const std::scoped_lock changing(change_mutex_);
  std::map<Key, proto::PinRecord> next;
  {
    const std::scoped_lock lock(mutex_);
    next = pins_;
  }
  if (next.erase({link, path}) == 0) return false;
  StateBatch batch;
  batch.Delete(KeyOf(link, path));
  Status written = Write(link, std::move(next), std::move(batch));
  if (!written) return Fail(written.error());
  return true;
}

void PinBook::Measure(const Uuid& link, const std::string& path, std::uint64_t objects,
                      std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto pin = pins_.find({link, path});
  if (pin == pins_.end()) return;
  pin->second.set_objects(objects);
  pin->second.set_bytes(bytes);
}

std::vector<proto::PinRecord> PinBook::All() const {
  const std::scoped_lock lock(mutex_);
  std::vector<proto::PinRecord> all;
  all.reserve(pins_.size());
  for (const auto& [key, pin] : pins_) all.push_back(pin);
  return all;
}

std::optional<proto::PinRecord> PinBook::Find(const Uuid& link, const std::string& path) const {
  const std::scoped_lock lock(mutex_);
  const auto pin = pins_.find({link, path});
  if (pin == pins_.end()) return std::nullopt;
  return pin->second;
}

}  // namespace forebay
