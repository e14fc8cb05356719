// SPDX-License-Identifier: Apache-2.0
// The running agent's picture: a bounded history of the evaluations of its loop. While there are
// viewers, it also samples the node and its workloads every second.
//
// The loop only adds to it, under a lock that it never waits for. The thread that serves the
// viewers (exports/live_streams.h) pays the cost of viewing: it reads with its own observer at a
// lower priority, and releases the observer when the last viewer leaves.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "api/convert_status.h"
#include "base/clock.h"
#include "exports/http_exchange.h"
#include "exports/live_streams.h"
#include "exports/sink.h"
#include "kernel/cgroup_tree.h"
#include "picture/builder.h"
#include "policy/state.h"
#include "sources/observer.h"
#include "sources/pressure_reader.h"

namespace forestall::cli {

class LivePicture final : public exports::RecordSink, public exports::LiveFrames {
 public:
  // `tree` and `clock` must outlive this.
  LivePicture(const kernel::CgroupTree& tree, const Clock& clock, const api::AgentFacts& facts);

  // ---- called by the loop ----

  void passed(const exports::Pass& pass) override;
  void write(const Record& record) override;
  void surveyed(const exports::Survey& survey) override;

  // ---- called by any thread ----

  // The whole picture as JSON.
  [[nodiscard]] std::string json();
  // Held while the result of json() is sent. Null: kUnreadMax answers are being sent already.
  [[nodiscard]] std::shared_ptr<void> turn() const;

  // ---- called by the viewers' thread ----

  void begin() override;
  [[nodiscard]] Frame frame(bool want_whole) override;
  void end() override;

  // With more workloads, viewers see only those that decisions read. Each workload takes three
  // descriptors.
  static constexpr std::size_t kWorkloadsMax = 1000;
  // Limit of answers being sent: each is megabytes on a large node, and any user of this host may
  // request one per connection without reading it.
  static constexpr long kUnreadMax = 4;

 private:
  void anchor(MonotonicTime at, std::int64_t wall_time_ns);
  void take_waiting();
  void watch(MonotonicTime now);
  void make_observer();

  const kernel::CgroupTree& tree_;
  const Clock& clock_;
  const std::shared_ptr<void> turns_ = std::make_shared<char>();  // one use more for each answer

  // Used by the loop: records that arrived while the lock was taken. They are few and must not be
  // lost.
  std::deque<Record> waiting_;

  std::mutex mutex_;  // the loop only tries to lock it
  picture::Builder builder_;
  std::shared_ptr<const Config> config_;  // in force; null: no evaluation yet
  std::uint64_t reloads_ = 0;

  // Used by the viewers' thread.
  std::shared_ptr<const Config> watched_;  // the configuration of the observer
  std::unique_ptr<sources::Observer> observer_;
  std::optional<sources::PressureReader> pressure_;
  MonotonicTime refreshed_at_;
  picture::Cursor cursor_;
};

// Handlers of the status page: its parts, /picture and /live. They refuse clients of other hosts,
// and requests with a foreign host name.
[[nodiscard]] exports::HttpPages status_pages(LivePicture& picture, exports::LiveStreams& streams);

}  // namespace forestall::cli
