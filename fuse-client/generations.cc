#include "fuse-client/generations.h"

#include <utility>

namespace forebay {
namespace {

Result<SnapshotRow> RootOf(const Snapshot& snapshot, std::string_view sub_path) {
  const std::optional<SnapshotRow> root = snapshot.Resolve(sub_path);
  if (!root) {
    return Fail(Code::kNotFound,
                "there is no directory \"" + std::string(sub_path) + "\"; see `forebay ls`");
  }
  if (!root->is_directory()) {
    return Fail(Code::kInvalid,
                "\"" + std::string(sub_path) + "\" is a file; mount the directory that holds it");
  }
  return *root;
}

}  // namespace

std::optional<GenerationView::Found> GenerationView::Find(std::uint64_t nodeid) const {
  if (nodeid == kRoot) return Found{snapshot.get(), root, true};
  if (const auto row = snapshot->FindNodeid(nodeid)) return Found{snapshot.get(), *row, true};
  for (const auto& old : earlier) {
    if (const auto row = old->FindNodeid(nodeid)) return Found{old.get(), *row, false};
  }
  return std::nullopt;
}

Result<std::unique_ptr<Generations>> Generations::Make(std::shared_ptr<const Snapshot> snapshot,
                                                       std::string_view sub_path) {
  const Result<SnapshotRow> root = RootOf(*snapshot, sub_path);
  if (!root) return Fail(root.error());
  auto view = std::make_shared<GenerationView>();
  view->snapshot = std::move(snapshot);
  view->root = *root;
  return std::unique_ptr<Generations>(new Generations(std::move(view), sub_path));
}

Status Generations::Switch(std::shared_ptr<const Snapshot> next) {
  const Result<SnapshotRow> root = RootOf(*next, sub_path_);
  if (!root) return Fail(root.error());
  const std::shared_ptr<const GenerationView> now = view();
  auto view = std::make_shared<GenerationView>();
  view->earlier.push_back(now->snapshot);
  for (const auto& old : now->earlier) {
    if (view->earlier.size() == kEarlierKept) break;
    view->earlier.push_back(old);
  }
  view->snapshot = std::move(next);
  view->root = *root;
  view_.store(std::move(view), std::memory_order_release);
  return {};
}

}  // namespace forebay
