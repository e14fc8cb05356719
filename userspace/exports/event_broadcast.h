// SPDX-License-Identifier: Apache-2.0
// Passes every record, and a summary of every evaluation, from the loop to the clients that watch
// over gRPC.
//
// Without clients, nothing but records of kills is copied, and those only if a server keeps them
// for a client that is away. With clients, each record is copied into a slot (base/slot_ring.h) and
// the server's thread is woken. Without a free slot the record is dropped and counted, because the
// loop must not wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/slot_ring.h"
#include "base/unique_fd.h"
#include "exports/sink.h"

namespace forestall::exports {

// A summary of one evaluation.
struct EvaluationNote {
  MonotonicTime woken;    // the kernel detected the cause
  MonotonicTime decided;  // the policy decided
  std::int64_t wall_time_ns = 0;
  WakeSource wake = WakeSource::startup;
  CgroupId cgroup;  // of the wake; inode 0: the node
  Action action = Action::none;
  Reason reason = Reason::no_data;
  // Set if another set of thresholds is met than at the last published evaluation.
  bool crossed = false;
  std::vector<Evidence> evidence = {};  // all of it if `crossed`, else empty
};

class EventBroadcast final : public RecordSink, public EvaluationListener {
 public:
  static constexpr std::size_t kRecords = 32;
  static constexpr std::size_t kEvaluations = 256;

  static Result<std::unique_ptr<EventBroadcast>> create();

  // Loop's thread.
  void write(const Record& record) override;
  void evaluated(const Evaluation& evaluation) override;

  // The members below are for the server's thread.

  // Sets the number of clients; with 0 the loop publishes no more than kills.
  void set_watchers(std::size_t watchers) { watched_.store(watchers > 0); }
  // Kills are published without clients too, until the broadcast ends.
  void always_publish_kills() { always_publishes_kills_.store(true); }
  // Readable if something was published.
  [[nodiscard]] int fd() const { return news_.get(); }
  // Visits everything published, in the order of decisions. A visitor must not keep its argument.
  void drain(const std::function<void(const Record&)>& record,
             const std::function<void(const EvaluationNote&)>& evaluation);
  // Records and evaluations that found no free slot since the last call.
  [[nodiscard]] std::uint64_t take_dropped() { return dropped_.exchange(0); }

 private:
  explicit EventBroadcast(UniqueFd news) : news_(std::move(news)) {}
  void report();
  [[nodiscard]] bool crossed(const std::vector<Evidence>& evidence);

  const UniqueFd news_;
  std::atomic<bool> watched_{false};
  std::atomic<bool> always_publishes_kills_{false};
  std::atomic<std::uint64_t> dropped_{0};
  SlotRing<Record, kRecords> records_;
  SlotRing<EvaluationNote, kEvaluations> evaluations_;
  // The loop's. Hash of the thresholds met at the last published evaluation; nothing: none was
  // published.
  std::optional<std::uint64_t> met_;
  bool holds_slots_ = false;  // the slots must be freed once no client watches
};

}  // namespace forestall::exports
