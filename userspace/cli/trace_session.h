// SPDX-License-Identifier: Apache-2.0
// One run of `forestall trace`: what tells (BPF, the kernel's files and log, a running agent), in
// one place, until it is told to end.
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
#include "cli/trace_events.h"
#include "cli/trace_output.h"
#include "cli/trace_question.h"
#include "cli/trace_summary.h"
#include "clients/grpc_stream.h"
#include "kernel/cgroup_tree.h"
#include "kernel/trace_programs.h"
#include "model/feature.h"
#include "sources/cgroup_names.h"
#include "sources/oom_log.h"
#include "sources/pressure_poll.h"

namespace forestall::cli {

// Thread rule: one thread.
class TraceSession {
 public:
  // `tree` and `output` outlive this. `agent_socket`: where a running agent serves gRPC.
  TraceSession(TraceQuestion question, const kernel::CgroupTree& tree, const FeatureSet& disabled,
               std::string agent_socket, TraceOutput& output);

  // Opens what may be had, says what that is, and shows what it tells until `stop_fd` is readable,
  // the time is over or nobody reads the output. An error: nothing that was asked for can be
  // seen, or what was seen could not be written.
  Result<void> run(int stop_fd);

 private:
  // How long the reader rests while there are records, and how long it then stays awake.
  static constexpr Duration kRest = std::chrono::milliseconds(20);
  static constexpr int kRestsWithoutNews = 10;
  static constexpr Duration kPollEvery = std::chrono::seconds(1);

  void open_programs();
  void open_agent(Duration patience);
  void open_log();
  void want_cgroups();
  void want(CgroupId id, const std::string& path);
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
  void tell_readings(const std::vector<sources::PressureReading>& readings);
  void tell_window(const std::vector<sources::PressureReading>& readings, Duration window,
                   MonotonicTime now);
  [[nodiscard]] std::vector<kernel::TraceSum> take_sums() const;
  void tell_polled(MonotonicTime now);
  void tell_lost(std::uint64_t count, const char* where);
  [[nodiscard]] std::uint64_t failures(const abi_trace_totals& totals) const;
  void tell_drops();
  void tell(const v1::Event& event);
  [[nodiscard]] bool asked(TraceKind kind) const { return has(question_.kinds, kind); }
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
  std::unique_ptr<clients::GrpcStream> agent_;       // null: none runs, or it is not asked
  std::string no_agent_;
  MonotonicTime agent_since_;
  bool agent_gone_ = false;               // it was there, and is asked for again
  std::unique_ptr<sources::OomLog> log_;  // null: BPF tells of kills, or the log cannot be read
  std::string no_log_;

  MonotonicTime began_;
  std::optional<MonotonicTime> ends_;
  MonotonicTime next_tick_;
  MonotonicTime last_tick_;
  MonotonicTime next_walk_;
  int rests_ = 0;      // left before the reader waits to be woken
  bool more_ = false;  // records are left that were there when the reader looked
  bool stopped_ = false;
  bool broken_ = false;  // nobody reads the output
  std::uint64_t told_ = 0;
  std::uint64_t kills_ = 0;
  std::uint64_t agent_lost_ = 0;
  std::uint64_t dropped_told_ = 0;
  std::uint64_t failed_told_ = 0;
  std::uint64_t names_lost_ = 0;
  std::uint64_t unwanted_ = 0;  // times that there was no room for one more cgroup to ask for
  std::size_t unpolled_ = 0;    // cgroups beyond what is polled
};

}  // namespace forestall::cli
