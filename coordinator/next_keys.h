#pragma once

#include "common/base/asio.h"
#include "common/base/deadline.h"
#include "common/base/result.h"
#include "common/s3/object_store.h"

namespace forebay {

/// Empty pages in a row that promise more: S3 sends some where it skips deleted versions. So many
/// are a server that never ends.
inline constexpr int kMaxEmptyPages = 1000;

/// The next page of a listing that has keys, or its last one: an empty page that names a next one
/// says nothing about the keys behind it and is never taken for "there is nothing". A page with an
/// object that cannot be read (ListedObject::etag) is asked for once more. `store` outlives the
/// task.
///
/// Errors: the store's; kCorrupt for more than kMaxEmptyPages empty pages in a row, keys that are
/// not below the prefix, and keys that do not ascend behind `start_after` (some kinds of bucket
/// list so, and what is behind a key would be unknown).
Task<Result<ListPage>> NextKeys(ObjectStore& store, ListRequest request, Deadline deadline);

}  // namespace forebay
