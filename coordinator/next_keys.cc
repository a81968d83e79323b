#include "coordinator/next_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/s3/list_parser.h"

namespace forebay {
namespace {

std::string PlaceOf(const ListRequest& request) {
  return fmt::format("s3://{}/{}", request.origin.bucket, Printable(request.prefix));
}

Status CheckKeys(const ListPage& page, const ListRequest& request) {
  const std::string* last = &request.start_after;
  for (const ListedObject& object : page.objects) {
    if (!object.key.starts_with(request.prefix)) {
      return Fail(Code::kCorrupt, "S3 listed a key outside of " + PlaceOf(request));
    }
    if (object.key <= *last) {
      return Fail(Code::kCorrupt,
                  fmt::format("S3 lists {} out of order: this kind of bucket cannot be linked",
                              PlaceOf(request)));
    }
    last = &object.key;
  }
  return {};
}

}  // namespace

Task<Result<ListPage>> NextKeys(ObjectStore& store, ListRequest request, Deadline deadline) {
  bool asked_again = false;
  for (int empty = 0; empty <= kMaxEmptyPages; ++empty) {
    ListRequest now = request;
    Result<ListPage> page = co_await store.List(std::move(now), deadline);
    if (!page) co_return page;
    // What was garbled on its way must not hide a file.
    const bool garbled =
        std::ranges::any_of(page->objects, &std::string::empty, &ListedObject::etag);
    if (garbled && !std::exchange(asked_again, true)) {
      --empty;
      continue;
    }
    const bool says_something = !page->objects.empty() || page->next.empty();
    if (says_something) {
      const Status sound = CheckKeys(*page, request);
      if (!sound) co_return Fail(sound.error());
      co_return page;
    }
    request.continuation = std::move(page->next);
  }
  co_return Fail(Code::kCorrupt, fmt::format("S3 lists {} without an end: {} empty pages",
                                             PlaceOf(request), kMaxEmptyPages));
}

}  // namespace forebay
