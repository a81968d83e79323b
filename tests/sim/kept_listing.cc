#include "tests/sim/kept_listing.h"

#include "common/base/files.h"
#include "common/snapshot/snapshot_builder.h"
#include "common/wire/messages.h"
#include "fuse-client/snapshot_fetcher.h"

namespace forebay::sim {

Uuid ClusterId() {
  Uuid id;
  id.bytes.fill(3);
  return id;
}

Result<proto::LinkState> KeepListing(const Dataset& data, const std::string& coordinator,
                                     const std::string& state_dir) {
  constexpr std::uint64_t kGeneration = 1;
  const LinkSpec& link = data.link();
  const std::string cluster = state_dir + "/" + ClusterId().ToString();
  const std::string folder = cluster + "/" + link.id.ToString();
  Status done = MakePrivateFolder(folder);
  if (!done) return Fail(done.error());
  SnapshotOptions options;
  options.id = {link.id, kGeneration};
  options.domain = link.domain;
  options.endpoint = link.origin.endpoint;
  options.bucket = link.origin.bucket;
  options.prefix = link.origin.prefix;
  options.block_bytes = link.block_bytes;
  SnapshotBuilder builder(std::move(options), folder + "/" + SnapshotName(kGeneration));
  for (std::size_t i = 0; done && i < data.objects(); ++i) {
    const std::string key = data.KeyOf(i);
    const std::string etag = data.EtagOf(i);
    ListedKey listed;
    listed.key = key;
    listed.etag = etag;
    listed.size = data.object_bytes();
    done = builder.Add(listed);
  }
  if (!done) return Fail(done.error());
  const Result<FinishedSnapshot> made = builder.Finish();
  if (!made) return Fail(made.error());
  proto::GetLinksReply reply;
  reply.set_cluster(BytesOf(ClusterId()));
  proto::LinkState& state = *reply.add_links();
  *state.mutable_spec() = ToProto(link);
  state.set_state(1);
  proto::GenerationInfo& generation = *state.mutable_generation();
  generation.set_generation(kGeneration);
  generation.set_snapshot_bytes(made->file_bytes);
  generation.set_digest_high(made->digest.high);
  generation.set_digest_low(made->digest.low);
  generation.set_objects(made->totals.objects);
  generation.set_bytes(made->totals.bytes);
  done = WriteFileAtomically(folder + "/link.pb", reply.SerializeAsString());
  if (done) done = WriteFileAtomically(cluster + "/coordinators", coordinator + "\n");
  if (!done) return Fail(done.error());
  return state;
}

}  // namespace forebay::sim
