#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/asio.h"
#include "common/base/notifier.h"
#include "common/base/offload.h"
#include "common/base/result.h"
#include "common/s3/link_manifest.h"
#include "common/s3/object_store.h"
#include "common/snapshot/snapshot_builder.h"
#include "coordinator/link_options.h"
#include "coordinator/link_registry.h"
#include "coordinator/listing_feed.h"
#include "coordinator/listing_spool.h"
#include "coordinator/name_lister.h"
#include "coordinator/namespace_index.h"
#include "coordinator/posix_asker.h"
#include "coordinator/posix_spool.h"
#include "coordinator/range_lister.h"
#include "coordinator/s3_wait.h"
#include "coordinator/task_book.h"
#include "proto/coordinator.pb.h"

namespace boost::asio {
class io_context;
}

namespace forebay {

/// Fills in what a link's origin leaves open (CompleteOrigin of common/s3). Blocks.
using OriginCompleter =
    std::function<Result<LinkOrigin>(LinkOrigin partial, std::optional<bool> path_style)>;

/// Makes links: checks what was asked, looks whether S3 answers, lists the prefix into a snapshot
/// and publishes it as a generation when it is complete. A listing that a stop or a crash
/// interrupts goes on at the next start where each of its key ranges was, under the same task;
/// nothing of it was visible.
///
/// Lives on one io_context; its methods run there.
class Linker {
 public:
  struct Parts {
    ObjectStore& store;
    OriginCompleter complete_origin;
    LinkRegistry& links;
    TaskBook& tasks;
    NamespaceIndex& index;
    Offload& offload;
    RangeListerOptions listing;  ///< Its `wait.say` is the Linker's.
    /// Makes the lost file of a generation whole again without S3; a failure where nobody has it.
    std::function<Task<Status>(Uuid, proto::GenerationInfo)> find;
    std::vector<asio::any_io_executor> workers = {};  ///< Of RangeLister; may be empty.
    /// False: what links there are may be another's to say by now.
    std::function<bool()> leads = [] { return true; };
  };
  Linker(asio::io_context& context, Parts parts);

  /// kLink, of a link or a set. Fails at once, and changes nothing, where the request is wrong or
  /// S3 does not answer it within 10 s (no such bucket, refused credentials, unreachable, nothing
  /// under the prefix). Of a link that is there, whose listing was lost and could not be made
  /// again, tries that anew.
  Task<Result<proto::LinkReply>> StartLink(proto::LinkRequest request);

  /// kRefresh: lists `path` of a link again, or all of it (""). Answers what runs already instead.
  /// Of an immutable link whose listing is lost, tries to have it again. kInvalid: the link is
  /// immutable, and its listing is there.
  Task<Result<proto::RefreshReply>> StartRefresh(LinkSpec link, std::string path,
                                                 RefreshCause cause);

  /// Ends the listing that runs as this task, with its requests to S3. A refresh leaves the link as
  /// it was; a first listing goes with its link. Success says that it does not run any more, be it
  /// that it ended by itself. kInvalid: it is made again after it was lost, and there is nothing to
  /// go back to. kTimeout, kUnavailable: not yet.
  Task<Status> Cancel(std::string task_id);

  /// Lists the links again whose period is over. Called about once a second.
  Task<void> RefreshDue();

  /// Goes on with every link that has no generation. Where a file is gone or, which it finds out
  /// behind this call, damaged, it is had from another coordinator, or its link listed again; of an
  /// immutable link only the same listing is published. Called once, after everything is loaded.
  Task<Status> Resume();

  /// Removes a link, or a set with all its parts, and answers them; listings end and files go.
  /// Fails as LinkRegistry::Remove.
  Task<Result<std::vector<Link>>> Remove(std::string name);

  /// Interrupts all listings: before the origin is interrupted, or what that ends is asked again.
  Task<void> CancelAll();
  /// CancelAll, and waits for them. Nobody calls StartLink any more; the object store
  /// ends its calls soon (S3Client::Stop).
  Task<void> Stop();
  /// Any thread, before the origin is interrupted: what fails from now on was interrupted, not
  /// refused.
  void ExpectInterruption() { stopping_ = true; }

 private:
  struct Listing {
    std::shared_ptr<RangeLister> lister;
    std::shared_ptr<NameLister> names;       // of a link with a manifest, in the lister's place
    std::shared_ptr<LinkManifest> manifest;  // when it has been read
    std::vector<std::string> keys;           // that are looked up; `names` takes them
    std::vector<std::string> gone;           // of those of a part
    std::vector<ListedObject> single;        // what was listed beside the spool
    std::set<std::string> left_out;          // parts that could not be listed with the others
    std::shared_ptr<PosixSpool> posix;       // of a link that asks for it
    std::shared_ptr<PosixAsker> asker;       // while it asks
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
    std::atomic<bool> cancelled{false};  // by Cancel; read on Offload's threads, too
    std::atomic<bool> ended{false};      // nothing more is asked of S3

    void CancelRequests() {
      ended = true;
      if (lister) lister->Cancel();
      if (names) names->Cancel();
      if (asker) asker->Cancel();
    }
  };
  /// How a generation is made.
  struct Plan {
    std::shared_ptr<const Snapshot> previous;  // null: there was none
    std::vector<std::string> parts;  // only these are listed, the rest is carried over; none = all
    std::int64_t listed_unix_s = 0;
    std::shared_ptr<ListingSpool> spool;
    std::shared_ptr<SnapshotBuilder> builder;
  };

  Task<Result<proto::LinkReply>> StartSet(proto::LinkRequest request);
  Task<Result<std::vector<LinkSpec>>> SpecsOf(proto::LinkRequest request);
  Task<Result<LinkSpec>> SpecOf(proto::LinkRequest request);
  Task<Result<std::string>> FindPrefix(LinkOrigin origin, std::string asked, Deadline deadline);
  Task<Result<bool>> HasKey(LinkOrigin origin, std::string prefix, Deadline deadline);
  Task<Result<std::string>> FetchManifest(LinkOrigin origin, S3Location at, Deadline deadline);
  Task<Status> LookForManifest(ManifestSource source, LinkOrigin origin, Deadline deadline);
  Task<Result<LinkManifest>> ReadManifest(ManifestSource source, LinkOrigin origin, S3Location root,
                                          Deadline deadline);
  Task<Result<LinkOrigin>> FindRoot(LinkOptions options, LinkOrigin partial, Deadline deadline);
  S3Wait WaitOf(const Link& link);
  Task<Status> ReadNames(Link link, std::shared_ptr<Listing> listing);
  Task<Status> ListNames(Link link, Plan plan, std::shared_ptr<Listing> listing);
  Status TakeMissing(const Link& link, const Plan& plan, const std::vector<std::size_t>& missing,
                     Listing& listing);
  static ListedLink ListedBy(const Link& link, const Plan& plan, const Listing& listing);
  Task<Status> AskPosix(Link link, Plan plan, std::shared_ptr<Listing> listing);
  Task<Status> AskBatch(Link link, std::vector<ListedObject> objects,
                        std::shared_ptr<Listing> listing);
  Status ReportBad(const Link& link, const LinkManifest& manifest);
  void Begin(Link link);
  Task<void> List(Link link);
  Task<Status> Verify(Link link);
  Task<Status> FindOrList(Link link, Error why);
  Task<Status> ListAgain(Link link, Error why);
  Task<Status> BeginAgain(Link link);
  Task<Status> ListAnew(Link link);
  Task<void> VerifyFiles(std::vector<Link> links);
  Task<Status> GoOn(Link link);
  Task<void> VerifyAndGoOn(Link link);
  Task<Result<std::string>> TaskOf(LinkRegistry::Added added);
  Task<Result<proto::RefreshReply>> TryAgain(Link link);
  Task<void> FindAgain(Link link);
  Task<void> Forget(Uuid link);
  void ForgetSoon(const std::vector<Link>& removed);
  Task<Status> ListInto(Link link, Plan plan, std::shared_ptr<Listing> listing);
  Task<Status> Build(Link link, std::shared_ptr<Listing> listing);
  Status RecordEnd(const Link& link, const Listing& listing, const Error& why);
  Result<Plan> Prepare(const Link& link, Listing& listing);
  Result<Plan> OpenFiles(const Link& link, Plan plan, const Listing& listing,
                         std::int64_t now_unix_s);
  void ShowKept(const Link& link, const Plan& plan, Listing& listing);
  static Status CarryRest(const Plan& plan, const Listing& listing);
  Task<Status> LookBelow(Link link, std::vector<std::string> parts,
                         std::shared_ptr<Listing> listing);
  Status Finish(const Link& link, const Plan& plan, const Listing& listing);
  Task<Status> PruneFiles();

  asio::io_context& context_;
  Parts parts_;
  std::map<Uuid, std::shared_ptr<Listing>> running_;
  std::map<Uuid, TimePoint> next_refresh_;  // of periodic links that this process looked at
  int verifying_ = 0;  // that look through files, and have them again where they are lost
  std::atomic<bool> stopping_{false};
  Notifier ended_;
};

}  // namespace forebay
