// SPDX-License-Identifier: Apache-2.0
// The subcommands of forestall-offline: they evaluate files, and need neither privileges nor a
// running agent. Each writes results to standard output and problems to standard error, and returns
// the exit code of the process (cli/exit_code.h).
#pragma once

#include "cli/earlyoom_command.h"
#include "cli/events_options.h"
#include "cli/managed_oom_command.h"
#include "cli/memory_qos_options.h"
#include "cli/options.h"
#include "cli/pod_commands.h"
#include "cli/rebalance_options.h"
#include "cli/recording_options.h"
#include "cli/report_options.h"
#include "cli/rules_options.h"

namespace forestall::cli {

// Recordings.
int run_events(const Options& options, const EventsOptions& events);
int run_replay(const Options& options, const ReplayOptions& replay);
int run_diff(const Options& options, const DiffOptions& diff);
int run_report(const ReportOptions& report);

// Rules of other programs, and rulesets, on observations.
int run_rules(const Options& options, const RulesOptions& rules);
int run_managed_oom_rules(const Options& options, const ManagedOomOptions& managed,
                          const RulesOptions& rules);
int run_earlyoom(const Options& options, const EarlyoomCommand& command);
// Prints the rulesets of an oomd.json as Forestall's configuration.
int run_import_oomd(const Options& options, const ImportOomdOptions& given);
// REQUIRES: check.of_oomd(). Prints the rules in words or as JSON, and the points at which the
// original differs.
int run_check_rules(const Options& options, const CheckConfigOptions& check);
int run_check_managed_oom(const Options& options, const ManagedOomOptions& managed);

// Pods and nodes. Of run_memory_qos(), pods and capacity are in `qos`.
int run_memory_qos(const Options& options, const QosOptions& qos,
                   const MemoryQosOptions& memory_qos);
int run_rebalance(const Options& options, const RebalanceOptions& rebalance_options);
// `forestall rebalance simulate`.
int run_simulation(const Options& options, const SimulateOptions& simulate);
int run_check_policy(const Options& options, const RebalanceOptions& rebalance_options);

}  // namespace forestall::cli
