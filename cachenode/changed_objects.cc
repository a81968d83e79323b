#include "cachenode/changed_objects.h"

#include <utility>

namespace forebay {

bool ChangedObjects::Note(Object object, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  const auto known = objects_.find(object);
  if (known != objects_.end()) {
    if (!known->second.done || now - known->second.at < kReportAgain) return false;
    known->second.done = false;
    return true;
  }
  if (objects_.size() >= kMost) {
    std::erase_if(objects_, [&](const auto& entry) {
      return entry.second.done && now - entry.second.at >= kReportAgain;
    });
  }
  if (objects_.size() >= kMost) return false;
  objects_.emplace(std::move(object), Report());
  return true;
}

std::vector<ChangedObjects::Object> ChangedObjects::ToReport(std::size_t most) const {
  const std::scoped_lock lock(mutex_);
  std::vector<Object> objects;
  for (const auto& [object, report] : objects_) {
    if (objects.size() == most) break;
    if (!report.done) objects.push_back(object);
  }
  return objects;
}

void ChangedObjects::MarkReported(const std::vector<Object>& objects, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  for (const Object& object : objects) {
    const auto known = objects_.find(object);
    if (known != objects_.end()) known->second = Report{.done = true, .at = now};
  }
}

}  // namespace forebay
