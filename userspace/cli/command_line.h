// SPDX-License-Identifier: Apache-2.0
// The command line of forestall and of forestall-top: all subcommands, their options and help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster_options.h"
#include "cli/completion.h"
#include "cli/earlyoom_command.h"
#include "cli/events_options.h"
#include "cli/managed_oom_command.h"
#include "cli/memory_qos_options.h"
#include "cli/oom_commands.h"
#include "cli/options.h"
#include "cli/plan_options.h"
#include "cli/pod_commands.h"
#include "cli/rebalance_options.h"
#include "cli/recording_options.h"
#include "cli/report_options.h"
#include "cli/rules_options.h"
#include "cli/top_options.h"
#include "trace/trace_options.h"

namespace forestall::cli {

enum class Subcommand : std::uint8_t {
  agent,
  demo,
  doctor,
  status,
  signals,
  rank,
  score,
  top,
  cluster,
  events,
  check_config,
  rules,
  import_oomd,
  earlyoom,
  plan,
  qos,
  admit,
  rebalance,
  replay,
  diff,
  report,
  trace,
  record,
  completion,
  version,
};

struct CommandLine {
  Subcommand subcommand = Subcommand::agent;  // also if none is given
  Options options;
  RankOptions rank;
  ScoreOptions score;
  TopOptions top;
  ClusterOptions cluster;
  EventsOptions events;
  CheckConfigOptions check;
  RulesOptions rules;
  ImportOomdOptions import_oomd;
  PlanOptions plan;
  ManagedOomOptions managed_oom;
  EarlyoomCommand earlyoom;
  QosOptions qos;
  MemoryQosOptions memory_qos;
  AdmitOptions admit;
  RebalanceOptions rebalance;
  ReplayOptions replay;
  DiffOptions diff;
  ReportOptions report;
  trace::TraceOptions trace;
  RecordOptions record;
  CompletionOptions completion;
};

// Parses the arguments, without the name of the program, into `line`. Returns the exit code if
// there is no subcommand to run: help or the version was printed to standard output, or an error
// to standard error. Throws what the standard library throws, such as std::bad_alloc.
[[nodiscard]] std::optional<int> parse_command_line(const std::vector<std::string>& arguments,
                                                    CommandLine& line);

}  // namespace forestall::cli
