#include "coordinator/posix_asker.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <utility>

#include "common/base/executors.h"
#include "common/snapshot/listed_extras.h"

namespace forebay {

std::shared_ptr<PosixAsker> PosixAsker::Create(ObjectStore& store, LinkOrigin origin,
                                               std::vector<ListedObject> objects,
                                               PosixAskerOptions options) {
  return std::shared_ptr<PosixAsker>(
      new PosixAsker(store, std::move(origin), std::move(objects), options));
}

PosixAsker::PosixAsker(ObjectStore& store, LinkOrigin origin, std::vector<ListedObject> objects,
                       PosixAskerOptions options)
    : store_(store),
      origin_(std::move(origin)),
      objects_(std::move(objects)),
      options_(options),
      answers_(objects_.size()) {}

Task<Result<std::vector<PosixSpool::Answer>>> PosixAsker::Run() {
  executor_ = co_await asio::this_coro::executor;
  const std::size_t lanes = std::min(options_.lanes, objects_.size());
  for (std::size_t i = 0; i < lanes; ++i) {
    ++running_;
    cancels_.emplace_back();
    Spawn(executor_, AskNext(), cancels_.back().slot(), [self = shared_from_this()] {
      --self->running_;
      self->changed_.NotifyAll();
    });
  }
  for (;;) {
    Notifier::Ticket ticket = changed_.Enlist(executor_);
    if (running_ == 0) break;
    // Each call of the store has its own deadline; this one only renews the wait.
    (void)co_await ticket.Wait(Deadline::After(options_.wait.say_after));
  }
  if (error_) co_return Fail(*error_);
  co_return std::move(answers_);
}

void PosixAsker::Cancel() {
  // First the reason: whoever is woken looks for it and asks nothing more.
  Stop(Error{Code::kUnavailable, "the listing was interrupted"});
  for (asio::cancellation_signal& cancel : cancels_) cancel.emit(asio::cancellation_type::terminal);
}

void PosixAsker::Stop(Error error) {
  if (!error_) error_ = std::move(error);
  ended_ = true;
}

Task<void> PosixAsker::AskNext() {
  const std::shared_ptr<PosixAsker> self = shared_from_this();
  while (!error_ && next_ < objects_.size()) {
    Status asked = co_await Ask(next_++);
    if (!asked) Stop(asked.error());
  }
}

Task<Status> PosixAsker::Ask(std::size_t place) {
  const ListedObject& object = objects_[place];
  answers_[place].object = PosixSpool::IdOf(object);
  std::function<Task<Result<ObjectHead>>(Deadline)> ask = [this, &object](Deadline deadline) {
    return store_.Head({.origin = origin_, .key = object.key}, deadline);
  };
  Task<Result<ObjectHead>> asked = AskS3<ObjectHead>(options_.wait, ended_, std::move(ask));
  Result<ObjectHead> head = co_await std::move(asked);
  if (!head && head.error().code == Code::kNotFound) co_return Status();
  if (!head) co_return Fail(head.error());
  if (head->etag == object.etag) answers_[place].posix = PosixRecordOf(head->posix);
  co_return Status();
}

}  // namespace forebay
