#include "fuse-client/top_file.h"

#include <utility>

namespace forebay {

void TopFile::Set(std::string text) {
  auto shared = std::make_shared<const std::string>(std::move(text));
  const std::scoped_lock lock(mutex_);
  text_ = std::move(shared);
}

bool TopFile::shown() const {
  const std::scoped_lock lock(mutex_);
  return text_ != nullptr;
}

std::uint64_t TopFile::size() const {
  const std::scoped_lock lock(mutex_);
  return text_ ? text_->size() : 0;
}

std::uint64_t TopFile::Open() {
  const std::scoped_lock lock(mutex_);
  open_.emplace(next_handle_, text_);
  return next_handle_++;
}

std::string TopFile::Read(std::uint64_t handle, std::uint64_t offset, std::size_t size) const {
  const std::scoped_lock lock(mutex_);
  const auto open = open_.find(handle);
  const std::shared_ptr<const std::string>& text = open == open_.end() ? text_ : open->second;
  if (!text || offset >= text->size()) return {};
  return text->substr(offset, size);
}

void TopFile::Close(std::uint64_t handle) {
  const std::scoped_lock lock(mutex_);
  open_.erase(handle);
}

}  // namespace forebay
