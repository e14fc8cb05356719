// SPDX-License-Identifier: Apache-2.0
// `forestall trace`: traces memory pressure in the kernel, live.
#include <fmt/format.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/trace_output.h"
#include "cli/trace_question.h"
#include "cli/trace_session.h"
#include "kernel/cgroup_tree.h"
#include "kernel/scheduling.h"

namespace forestall::cli {
namespace {

// Ctrl-C, SIGTERM and SIGHUP end the trace with its totals. A closed output ends it as well.
Result<UniqueFd> take_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, each);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return errno_error("signalfd", "");
  return fd;
}

// Names of the configuration's pods, for --pod.
Result<std::vector<std::pair<std::string, std::string>>> known_pods(const Options& options) {
  std::vector<std::pair<std::string, std::string>> pods;
  std::vector<std::string> warnings;
  const Config config = TRY(effective_config(options, warnings));
  for (const auto& pod : config.known_pods) {
    pods.emplace_back(pod->name, pod->uid);
    pods.emplace_back(pod->pod_namespace + "/" + pod->name, pod->uid);
  }
  for (const PodRule& rule : config.pod_rules) {
    if (rule.name) pods.emplace_back(*rule.name, rule.uid);
  }
  return pods;
}

Result<TraceQuestion> question_of(const Options& options, const TraceOptions& trace) {
  std::vector<std::pair<std::string, std::string>> pods;
  if (!trace.pods.empty()) pods = TRY(known_pods(options));
  return understand_trace(trace, pods);
}

}  // namespace

int run_trace(const Options& options, const TraceOptions& trace) {
  const auto fail = [](const Error& failure, int code) {
    fmt::print(stderr, "forestall trace: {}\n", failure.text());
    return code;
  };
  auto question = question_of(options, trace);
  if (!question) return fail(question.error(), kExitUsage);
  const auto disabled = disabled_features(options);
  if (!disabled) return fail(disabled.error(), kExitUsage);
  const auto signals = take_signals();
  if (!signals) return fail(signals.error(), kExitFailed);
  const auto tree = kernel::CgroupTree::discover(options.cgroup_mount);
  if (!tree) return fail(tree.error(), kExitFailed);
  TraceOutput output(STDOUT_FILENO, signals->get(), question->format, question->color);
  TraceSession session(std::move(*question), *tree, *disabled, api_socket(options), output);
  if (const auto ended = session.run(signals->get()); !ended) {
    return fail(ended.error(), kExitFailed);
  }
  return kExitOk;
}

}  // namespace forestall::cli
