// SPDX-License-Identifier: Apache-2.0
// `forestall trace`: traces memory pressure in the kernel, live.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "base/take_signals.h"
#include "cli/agent_socket.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "kernel/cgroup_tree.h"
#include "kernel/scheduling.h"
#include "sources/pod_paths.h"
#include "trace/trace_output.h"
#include "trace/trace_question.h"
#include "trace/trace_session.h"

namespace forestall::cli {
namespace {

// The pods that have a cgroup now.
Result<std::vector<std::string>> uids_of_host(const Options& options, const Config& config) {
  const kernel::CgroupTree tree = TRY(kernel::CgroupTree::discover(options.cgroup_mount));
  const auto pods_cgroup = TRY(sources::find_pods_cgroup(tree, config.cgroup_root));
  std::vector<sources::PodPath> pods;
  if (pods_cgroup) TRY(sources::list_pods(tree, *pods_cgroup, pods));
  std::vector<std::string> uids;
  for (const sources::PodPath& each : pods) uids.push_back(each.uid);
  return uids;
}

Result<trace::KnownPods> known_pods(const Options& options) {
  std::vector<std::string> warnings;
  const Config config = TRY(effective_config(options, warnings));
  trace::KnownPods known;
  known.uids = TRY(uids_of_host(options, config));
  for (const auto& pod : config.known_pods) {
    known.uid_of_name.emplace_back(pod->name, pod->uid);
    known.uid_of_name.emplace_back(pod->pod_namespace + "/" + pod->name, pod->uid);
  }
  for (const PodRule& rule : config.pod_rules) {
    if (rule.name) known.uid_of_name.emplace_back(*rule.name, rule.uid);
  }
  return known;
}

Result<trace::TraceQuestion> question_of(const Options& options, const trace::TraceOptions& trace) {
  trace::KnownPods known;
  if (!trace.pods.empty()) known = TRY(known_pods(options));
  return trace::understand_trace(trace, known);
}

// A cgroup may come after the trace, so a glob without one is only warned of.
void warn_of_unmatched(const kernel::CgroupTree& tree, const std::vector<std::string>& globs) {
  for (const std::string& glob : globs) {
    const auto matched = tree.match(glob);
    if (!matched || !matched->empty()) continue;
    fmt::print(stderr, "forestall trace: --cgroup: no cgroup matches '{}' at present\n",
               printable(glob));
  }
}

}  // namespace

int run_trace(const Options& options, const trace::TraceOptions& trace) {
  const auto fail = [](const Error& failure, int code) {
    fmt::print(stderr, "forestall trace: {}\n", printable_lines(failure.text()));
    return code;
  };
  auto question = question_of(options, trace);
  if (!question) return fail(question.error(), kExitUsage);
  for (const std::string& warning : question->warnings) {
    fmt::print(stderr, "forestall trace: {}\n", printable(warning));
  }
  const auto disabled = disabled_features(options);
  if (!disabled) return fail(disabled.error(), kExitUsage);
  // They end the trace with its totals. A closed output ends it as well.
  const auto signals = take_signals({SIGINT, SIGTERM, SIGHUP});
  ::signal(SIGPIPE, SIG_IGN);
  if (!signals) return fail(signals.error(), kExitFailed);
  const auto tree = kernel::CgroupTree::discover(options.cgroup_mount);
  if (!tree) return fail(tree.error(), kExitFailed);
  warn_of_unmatched(*tree, trace.cgroups);
  trace::TraceOutput output(STDOUT_FILENO, signals->get(), question->format, question->color);
  trace::TraceSession session(std::move(*question), *tree, *disabled, agent_socket(options),
                              output);
  if (const auto ended = session.run(signals->get()); !ended) {
    return fail(ended.error(), kExitFailed);
  }
  return kExitOk;
}

}  // namespace forestall::cli
