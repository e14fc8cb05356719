// SPDX-License-Identifier: Apache-2.0
#include "cli/pod_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/unique_fd.h"
#include "policy/pod_cgroup.h"
#include "policy/pod_facts.h"

namespace forestall::cli {
namespace {

constexpr std::size_t kInputBytesMax = std::size_t{1} << 30;

Result<std::string> read_all(int fd, const std::string& name) {
  std::string text;
  constexpr std::size_t kStep = 1 << 16;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kStep);
    const ssize_t size = ::read(fd, text.data() + before, kStep);
    if (size < 0 && errno != EINTR) return errno_error("read", name);
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    if (size == 0) return text;
    if (text.size() > kInputBytesMax) return error(name + ": larger than 1 GiB");
  }
}

std::string name_of(const std::string& path) {
  return path == "-" ? "standard input" : path;
}

// `problem` starts with LINE:COLUMN or with text.
Error in_file(const std::string& path, const Error& problem) {
  const bool placed =
      !problem.message.empty() && problem.message[0] >= '0' && problem.message[0] <= '9';
  return error(fmt::format("{}:{}{}", name_of(path), placed ? "" : " ", problem.text()));
}

using EntryByUid = std::unordered_map<std::string_view, std::size_t>;

// Index of the statistics of `pod`.
std::optional<std::size_t> entry_of(const Pod& pod, const EntryByUid& entries) {
  auto found = entries.find(pod.uid);
  if (found == entries.end() && pod.origin != PodOrigin::api) {
    found = entries.find(pod.config_hash);
  }
  if (found == entries.end()) return std::nullopt;
  return found->second;
}

WorkloadSample sample_of(std::shared_ptr<const Pod> pod, const intake::PodStatsEntry* entry) {
  WorkloadSample sample;
  Workload& workload = sample.workload;
  workload.kind = WorkloadKind::pod;
  workload.path = policy::pod_cgroup(*pod, {});
  workload.name = pod->name;
  workload.pod_uid = pod->uid;
  workload.priority = pod->priority;
  workload.pod = std::move(pod);
  if (entry == nullptr) return sample;
  sample.usage = entry->working_set.value_or(Bytes{0});
  sample.inactive_file = Bytes{0};
  sample.processes = entry->processes.value_or(0);
  sample.statistics = entry->statistics;
  return sample;
}

// The node a pod must be bound to; empty: any.
std::string_view node_to_match(const std::vector<intake::ListedPod>& listed,
                               const std::string& node) {
  const bool known = std::any_of(listed.begin(), listed.end(),
                                 [&](const intake::ListedPod& each) { return each.node == node; });
  return known ? std::string_view(node) : std::string_view();
}

std::optional<LeftOut> reason_to_leave_out(const intake::ListedPod& listed, std::string_view node) {
  if (!policy::is_active(listed.pod)) return LeftOut::finished;
  if (node.empty() || listed.node == node) return std::nullopt;
  return listed.node.empty() ? LeftOut::unbound : LeftOut::other_node;
}

}  // namespace

std::string_view to_string(LeftOut reason) {
  switch (reason) {
    case LeftOut::finished: return "finished";
    case LeftOut::other_node: return "other-node";
    case LeftOut::unbound: return "unbound";
  }
  return "";
}

Result<std::string> read_input(const std::string& path) {
  if (path == "-") return read_all(STDIN_FILENO, name_of(path));
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return errno_error("open", path);
  return read_all(fd.get(), path);
}

Result<std::vector<intake::ListedPod>> load_pods(const std::string& path) {
  const std::string text = TRY(read_input(path));
  auto pods = intake::parse_listed_pods(text);
  if (!pods) return in_file(path, pods.error());
  return pods;
}

Result<intake::StatsSummary> load_stats(const std::string& path) {
  const std::string text = TRY(read_input(path));
  auto summary = intake::parse_stats_summary(text);
  if (!summary) return in_file(path, summary.error());
  return summary;
}

JoinedPods join(std::vector<intake::ListedPod> listed, const intake::StatsSummary& summary) {
  EntryByUid entries;
  for (std::size_t i = 0; i < summary.pods.size(); ++i) entries.emplace(summary.pods[i].uid, i);
  const std::string_view node = node_to_match(listed, summary.node);
  std::vector<bool> used(summary.pods.size(), false);
  JoinedPods joined;
  for (intake::ListedPod& each : listed) {
    const auto reason = reason_to_leave_out(each, node);
    const auto entry = entry_of(each.pod, entries);
    if (entry) used[*entry] = true;
    auto pod = std::make_shared<const Pod>(std::move(each.pod));
    if (reason) {
      joined.left_out.emplace_back(std::move(pod), *reason);
      continue;
    }
    joined.workloads.push_back(sample_of(std::move(pod), entry ? &summary.pods[*entry] : nullptr));
  }
  for (std::size_t i = 0; i < summary.pods.size(); ++i) {
    if (!used[i]) joined.unmatched.push_back(summary.pods[i]);
  }
  return joined;
}

v1::PodName pod_name(const Pod& pod) {
  v1::PodName out;
  out.set_namespace_(pod.pod_namespace);
  out.set_name(pod.name);
  out.set_uid(pod.uid);
  return out;
}

std::string qualified_name(const Pod& pod) {
  return pod.pod_namespace.empty() ? pod.name : fmt::format("{}/{}", pod.pod_namespace, pod.name);
}

}  // namespace forestall::cli
