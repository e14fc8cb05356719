// SPDX-License-Identifier: Apache-2.0
// The subcommands that the program forestall runs itself; offline/commands.h has the others. Each
// writes results to standard output and problems to standard error, and returns the exit code of
// the process (cli/exit_code.h).
#pragma once

#include "cli/completion.h"
#include "cli/oom_commands.h"
#include "cli/options.h"
#include "cli/plan_options.h"
#include "cli/pod_commands.h"
#include "cli/recording_options.h"
#include "trace/trace_options.h"

namespace forestall::cli {

int run_agent(const Options& options);
int run_demo(const Options& options);
int run_doctor(const Options& options);
int run_status(const Options& options);
int run_signals(const Options& options);
int run_rank(const Options& options, const RankOptions& rank_options);
int run_score(const Options& options, const ScoreOptions& score);
int run_qos(const Options& options, const QosOptions& qos_options);
int run_admit(const Options& options, const AdmitOptions& admit_options);
int run_check_config(const Options& options);
int run_version(const Options& options);
int run_completion(const CompletionOptions& completion);
int run_record(const Options& options, const RecordOptions& record);
int run_trace(const Options& options, const trace::TraceOptions& trace);
int run_plan(const Options& options, const PlanOptions& plan_options);

}  // namespace forestall::cli
