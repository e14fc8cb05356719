// SPDX-License-Identifier: Apache-2.0
// One run of `forestall trace`: merges the events of BPF, the kernel's files and log, and a running
// agent.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "kernel/trace_programs.h"
#include "model/feature.h"
#include "sources/cgroup_names.h"
#include "sources/oom_log.h"
#include "sources/pressure_poll.h"
#include "trace/trace_events.h"
#include "trace/trace_output.h"
#include "trace/trace_question.h"
#include "trace/trace_summary.h"
#include "wire/grpc_stream.h"

namespace forestall::trace {

// Thread rule: one thread.
class TraceSession {
 public:
  // `tree` and `output` must outlive this. `agent_socket`: of a running agent's gRPC API; empty: it
  // is off.
  TraceSession(TraceQuestion question, const kernel::CgroupTree& tree, const FeatureSet& disabled,
               std::string agent_socket, TraceOutput& output);

  // Opens the available sources, prints which they are, and traces until `stop_fd` is readable, the
  // time is over or the output is closed. Errors: no requested kind is available, or the output
  // could not be written.
  Result<void> run(int stop_fd);

 private:
  // Pause between reads while there are records, and the number of pauses without a record before
  // the reader waits for a wakeup.
  static constexpr Duration kRest = std::chrono::milliseconds(20);
  static constexpr int kRestsWithoutNews = 10;
  static constexpr Duration kPollEvery = std::chrono::seconds(1);

  void open_programs();
  void open_agent(Duration patience);
  void open_log();
  void add_cgroups();
  void include_cgroup(CgroupId id, const std::string& path);
  [[nodiscard]] v1::Event start_event() const;
  [[nodiscard]] v1::TraceSight sight_of(TraceKind kind) const;
  [[nodiscard]] Tier tier() const;
  [[nodiscard]] bool sees(abi_trace_kind kind) const;

  void wait(int stop_fd);
  [[nodiscard]] bool over() const;
  void take_records();
  void take_record(const abi_trace_event& record, MonotonicTime now);
  void take_agent();
  void take_log();
  void tick(MonotonicTime now);
  void report_readings(const std::vector<sources::PressureReading>& readings);
  void report_window(const std::vector<sources::PressureReading>& readings, Duration window,
                     MonotonicTime now);
  [[nodiscard]] std::vector<kernel::TraceSum> take_sums() const;
  void report_polled(MonotonicTime now);
  void report_lost(std::uint64_t count, const char* where);
  [[nodiscard]] std::uint64_t failures(const abi_trace_totals& totals) const;
  void report_drops();
  void report(const v1::Event& event);
  [[nodiscard]] bool selects(TraceKind kind) const { return has(question_.kinds, kind); }
  void finish();

  const TraceQuestion question_;
  const kernel::CgroupTree& tree_;
  const FeatureSet disabled_;
  const std::string agent_socket_;
  TraceOutput& output_;

  sources::CgroupNames names_;
  TraceEvents events_;
  TraceSummary summary_;
  UsageLines usage_;
  sources::PressurePoll poll_;
  std::unique_ptr<kernel::TracePrograms> programs_;  // null: no BPF
  std::string no_programs_;                          // why
  std::unique_ptr<wire::GrpcStream> agent_;          // null: not connected
  std::string no_agent_;
  MonotonicTime agent_since_;
  bool agent_gone_ = false;               // it was connected; reconnect
  std::unique_ptr<sources::OomLog> log_;  // null: BPF reports OOM kills, or the log is not readable
  std::string no_log_;

  MonotonicTime began_;
  std::optional<MonotonicTime> ends_;
  MonotonicTime next_tick_;
  MonotonicTime last_tick_;
  MonotonicTime next_walk_;
  int rests_ = 0;      // pauses left before the reader waits for a wakeup
  bool more_ = false;  // the last read left records in the ring
  bool stopped_ = false;
  bool broken_ = false;  // the output is closed
  std::uint64_t reported_ = 0;
  std::uint64_t kills_ = 0;
  std::uint64_t agent_lost_ = 0;
  std::uint64_t dropped_reported_ = 0;
  std::uint64_t failed_reported_ = 0;
  std::uint64_t names_lost_ = 0;
  std::uint64_t unwanted_ = 0;  // cgroups that did not fit into the map of selected cgroups
  std::size_t unpolled_ = 0;    // cgroups that are not polled
};

}  // namespace forestall::trace
