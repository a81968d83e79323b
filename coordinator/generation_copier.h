#pragma once

#include <string>

#include "common/base/asio.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/model/object_version.h"
#include "coordinator/namespace_index.h"
#include "proto/common.pb.h"

namespace forebay {

class ClientPool;

/// Copies the files of published generations from another coordinator, so that nobody lists again
/// what one of them has listed. Used on the context of its pool.
class GenerationCopier {
 public:
  /// All outlive it.
  GenerationCopier(ClientPool& pool, NamespaceIndex& index, Offload& offload)
      : pool_(pool), index_(index), offload_(offload) {}

  /// Afterwards the generation is in the index, and its file is the one that was published, byte
  /// for byte; until then there is no file of that name. kNotFound: `coordinator` does not keep it;
  /// kUnavailable, kTimeout: it does not answer; kCorrupt: what it sent is another file;
  /// kInternal: the disk here.
  Task<Status> Copy(std::string coordinator, Uuid link, proto::GenerationInfo generation);

  /// Takes a whole file that lies here already into the index. kNotFound, kCorrupt: it does not.
  Task<Status> TakeOwn(Uuid link, proto::GenerationInfo generation);

 private:
  Task<Status> Fetch(std::string coordinator, Uuid link, proto::GenerationInfo generation);

  ClientPool& pool_;
  NamespaceIndex& index_;
  Offload& offload_;
};

}  // namespace forebay
