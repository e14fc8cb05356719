// SPDX-License-Identifier: Apache-2.0
#include "cli/rank_kernel.h"
#include "cli/failure.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "cli/exit_code.h"
#include "cli/kernel_rank_text.h"
#include "cli/process_input.h"
#include "kernel/number_list.h"
#include "messages/json.h"
#include "policy/oom_selection.h"
#include "sources/oom_scene.h"

namespace forestall::cli {
namespace {

// The domain that runs out of memory.
struct FailingDomain {
  Constraint constraint = Constraint::none;
  NodeMask nodes = kAllNodes;
  std::string cgroup;
};

Result<NodeMask> parse_nodes(const std::string& option, const std::string& text) {
  constexpr std::uint32_t kNodesMax = 64;
  const auto list = kernel::parse_number_list(text, kNodesMax);
  if (!list || list->empty()) {
    return error(
        fmt::format("{}: expected nodes below {} in ascending order like 0-1,3, found "
                    "'{}'",
                    option, kNodesMax, text));
  }
  NodeMask nodes = 0;
  for (const std::uint32_t node : *list) nodes |= NodeMask{1} << node;
  return nodes;
}

Result<FailingDomain> place_of(const RankOptions& options) {
  const KernelRankOptions& kernel = options.kernel;
  if (!kernel.nodes.empty()) {
    return FailingDomain{Constraint::cpuset, TRY(parse_nodes("--nodes", kernel.nodes)), ""};
  }
  if (!kernel.memory_policy.empty()) {
    return FailingDomain{Constraint::memory_policy,
                         TRY(parse_nodes("--memory-policy", kernel.memory_policy)), ""};
  }
  if (options.cgroup.empty() || options.cgroup == "/") return FailingDomain{};
  return FailingDomain{Constraint::memcg, kAllNodes, options.cgroup};
}

Result<void> read_scene(sources::OomSceneReader& reader, const FailingDomain& place,
                        OomScene& scene) {
  switch (place.constraint) {
    case Constraint::none: return reader.read_node(scene);
    case Constraint::cpuset:
    case Constraint::memory_policy: return reader.read_nodes(place.constraint, place.nodes, scene);
    case Constraint::memcg: return reader.read_memcg(place.cgroup, scene);
  }
  return {};
}

Result<void> set_allocating(std::optional<pid_t> pid, OomScene& scene) {
  if (!pid) return {};
  const bool there =
      std::any_of(scene.processes.begin(), scene.processes.end(),
                  [&](const ProcessSample& process) { return process.id.pid == *pid; });
  if (!there) {
    return error(
        fmt::format("--allocating {}: no such process in {}", *pid,
                    scene.domain.constraint == Constraint::memcg ? scene.domain.path : "the node"));
  }
  scene.allocating = pid;
  return {};
}

Result<void> evaluate(const Options& options, const RankOptions& rank_options,
                      const FailingDomain& place, const FeatureSet& disabled,
                      KernelRankView& view) {
  const kernel::CgroupTree tree = TRY(kernel::CgroupTree::discover(options.cgroup_mount));
  OpenedProcesses processes = TRY(open_processes(tree, disabled));
  view.reading = processes.reading;
  sources::OomSceneReader reader(tree, *processes.source);
  TRY(read_scene(reader, place, view.scene));
  TRY(set_allocating(rank_options.kernel.allocating, view.scene));
  BrokenTie answer = TRY(predict(*processes.source, view.scene));
  view.prediction = std::move(answer.prediction);
  view.tie_order_known = answer.order_known;
  view.order = policy::oom_order(view.scene);
  return {};
}

}  // namespace

int rank_kernel(const Options& options, const RankOptions& rank_options) {
  const auto place = place_of(rank_options);
  if (!place) return fail("rank", place.error(), kExitUsage);
  std::vector<std::string> warnings;
  const auto config = effective_config(options, warnings);
  if (!config) {
    fmt::print(stderr, "{}\n", printable_lines(config.error().text()));
    return kExitUsage;
  }
  for (const std::string& warning : warnings) fmt::print(stderr, "{}\n", warning);
  KernelRankView view;
  const auto evaluated = evaluate(options, rank_options, *place, config->disabled, view);
  if (!evaluated) return fail("rank", evaluated.error(), kExitFailed);
  const tables::ProcessShow show = show_here();
  if (options.output == OutputFormat::json) {
    fmt::print("{}", messages::to_json(to_report(view, show), messages::JsonStyle::pretty));
  } else {
    fmt::print("{}", kernel_rank_text(view, show));
  }
  return kExitOk;
}

}  // namespace forestall::cli
