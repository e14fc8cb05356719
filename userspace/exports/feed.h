// SPDX-License-Identifier: Apache-2.0
// What the loop hands to whoever watches it over gRPC: every record, and every look in brief.
//
// Nobody watches most of the time, and then nothing is copied. When somebody does, a record is
// copied into a slot (base/slot_ring.h) and the watchers' thread woken; what finds no free slot is
// dropped and counted, because the loop waits for nobody.
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

// One look, as far as it is told.
struct LookNote {
  MonotonicTime woken;    // the kernel saw the cause
  MonotonicTime decided;  // and the policy had answered
  std::int64_t wall_time_ns = 0;
  WakeSource wake = WakeSource::startup;
  CgroupId cgroup;  // of the wake; inode 0: the node
  Action action = Action::none;
  Reason reason = Reason::no_data;
  // Set when another set of thresholds is met than at the last look that was handed over.
  bool crossed = false;
  std::vector<Evidence> evidence = {};  // all of it then, else empty
};

class Feed final : public RecordSink, public EvaluationListener {
 public:
  static constexpr std::size_t kRecords = 32;
  static constexpr std::size_t kLooks = 256;

  static Result<std::unique_ptr<Feed>> create();

  // Loop's thread.
  void write(const Record& record) override;
  void looked(const Look& look) override;

  // What follows: the watchers' thread.

  // How many watch; at 0 the loop hands nothing over.
  void set_watchers(std::size_t watchers) { watched_.store(watchers > 0); }
  // Polls readable when something was handed over.
  [[nodiscard]] int fd() const { return news_.get(); }
  // Visits what was handed over, in the order of decisions. A visit must not keep what it is given.
  void drain(const std::function<void(const Record&)>& record,
             const std::function<void(const LookNote&)>& look);
  // Records and looks that found no slot since the last time this was asked.
  [[nodiscard]] std::uint64_t take_dropped() { return dropped_.exchange(0); }

 private:
  explicit Feed(UniqueFd news) : news_(std::move(news)) {}
  void tell();
  [[nodiscard]] bool crossed(const std::vector<Evidence>& evidence);

  const UniqueFd news_;
  std::atomic<bool> watched_{false};
  std::atomic<std::uint64_t> dropped_{0};
  SlotRing<Record, kRecords> records_;
  SlotRing<LookNote, kLooks> looks_;
  // The loop's.
  // What was met at the last look handed over, as one number; nothing: none was.
  std::optional<std::uint64_t> met_;
  bool holds_slots_ = false;  // they are to be given back once nobody watches
};

}  // namespace forestall::exports
