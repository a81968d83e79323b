#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "common/base/buffer.h"
#include "common/base/result.h"

namespace forebay {

/// A text of a listing that never changes and may be as large as the listing: it lies in a nameless
/// file on disk, mapped, from when it is asked for until nobody holds it.
class LargeText {
 public:
  /// Takes the next part of the text; false: no more is wanted.
  using Sink = std::function<bool(std::string_view part)>;
  /// Gives all of the text to the sink. Its errors are Text's.
  using Writer = std::function<Status(const Sink& sink)>;

  /// `folder`: where there is room for it. `name` is what it is called in messages.
  LargeText(std::string folder, std::string name, Writer write)
      : folder_(std::move(folder)), name_(std::move(name)), write_(std::move(write)) {}

  /// Blocks while it is written (a second for some million lines); many may call. kInternal: no
  /// room on disk.
  Result<Slice> Text();

 private:
  Result<Slice> Write() const;
  std::unexpected<Error> NoRoom() const;

  const std::string folder_;
  const std::string name_;
  const Writer write_;
  std::mutex mutex_;
  std::weak_ptr<const Slice> last_;
};

}  // namespace forebay
