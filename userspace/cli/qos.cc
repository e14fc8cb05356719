// SPDX-License-Identifier: Apache-2.0
// `forestall qos`: computes QoS class, request, limit, oom_score_adj and cgroup names (both
// drivers) from the specs of pods.
#include <fmt/format.h>

#include "base/printable.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/pod_input.h"
#include "intake/amounts.h"
#include "messages/convert.h"
#include "messages/json.h"
#include "policy/oom_score_adj.h"
#include "policy/pod_cgroup.h"
#include "policy/pod_requests.h"
#include "policy/qos.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

struct Naming {
  policy::CgroupNaming cgroupfs;
  policy::CgroupNaming systemd;
};

Result<Naming> naming_of(const QosOptions& options) {
  if (options.cgroup_root.empty() || options.cgroup_root.front() != '/') {
    return error(
        fmt::format("--cgroup-root: expected an absolute path, found '{}'", options.cgroup_root));
  }
  const std::string prefix = options.runtime == "crio" ? "crio-" : "cri-containerd-";
  return Naming{{CgroupDriver::cgroupfs, options.cgroup_root, prefix},
                {CgroupDriver::systemd, options.cgroup_root, prefix}};
}

v1::ResourceList list_of(const ResourceList& list) {
  v1::ResourceList out;
  if (list.cpu) out.set_cpu(list.cpu->text());
  if (list.memory) out.set_memory(list.memory->text());
  if (list.ephemeral_storage) out.set_ephemeral_storage(list.ephemeral_storage->text());
  return out;
}

v1::ContainerQos container_qos(const Pod& pod, const PodContainer& container, std::string_view kind,
                               Bytes capacity, const Naming& naming) {
  v1::ContainerQos out;
  out.set_name(container.name);
  out.set_kind(std::string(kind));
  out.set_id(container.id);
  out.set_oom_score_adj(policy::oom_score_adj(pod, container, capacity));
  out.set_cgroupfs(policy::container_cgroup(pod, container, naming.cgroupfs));
  out.set_systemd(policy::container_cgroup(pod, container, naming.systemd));
  return out;
}

v1::PodQos pod_qos(const Pod& pod, Bytes capacity, const Naming& naming) {
  Pod undecided = pod;
  undecided.status_qos.reset();
  const QosClass computed = policy::qos_class(undecided);
  v1::PodQos out;
  *out.mutable_pod() = pod_name(pod);
  out.set_qos_class(std::string(to_string(policy::qos_class(pod))));
  out.set_qos_class_from(pod.status_qos ? "status" : "computed");
  out.set_computed_qos_class(std::string(to_string(computed)));
  out.set_mismatch(pod.status_qos.value_or(computed) != computed);
  *out.mutable_request() = list_of(policy::pod_requests(pod));
  *out.mutable_limit() = list_of(policy::pod_limits(pod));
  out.set_cgroupfs(policy::pod_cgroup(pod, naming.cgroupfs));
  out.set_systemd(policy::pod_cgroup(pod, naming.systemd));
  for (const PodContainer& each : pod.containers) {
    *out.add_containers() = container_qos(pod, each, "container", capacity, naming);
  }
  for (const PodContainer& each : pod.init_containers) {
    *out.add_containers() =
        container_qos(pod, each, each.restartable ? "sidecar" : "init-container", capacity, naming);
  }
  return out;
}

std::string list_text(const v1::ResourceList& list) {
  std::string text;
  const auto add = [&](std::string_view name, bool has, const std::string& amount) {
    if (has) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, amount);
  };
  add("cpu", list.has_cpu(), list.cpu());
  add("memory", list.has_memory(), list.memory());
  add("ephemeral-storage", list.has_ephemeral_storage(), list.ephemeral_storage());
  return text.empty() ? "none" : text;
}

void print_pod(const v1::PodQos& pod) {
  const std::string space = pod.pod().namespace_().empty() ? "" : pod.pod().namespace_() + "/";
  fmt::print("{}{}: {} ({}", space, pod.pod().name(), pod.qos_class(), pod.qos_class_from());
  if (pod.mismatch()) fmt::print(", but its resources make it {}", pod.computed_qos_class());
  fmt::print(")\n  request   {}\n  limit     {}\n  cgroupfs  {}\n  systemd   {}\n",
             list_text(pod.request()), list_text(pod.limit()), pod.cgroupfs(), pod.systemd());
  tables::Table table(
      {"container", "kind", "oom_score_adj", "cgroup in the pod's (cgroupfs, systemd)"});
  for (const v1::ContainerQos& each : pod.containers()) {
    const auto last_part = [](const std::string& path) {
      return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
    };
    table.add({each.name(), each.kind(), fmt::format("{}", each.oom_score_adj()),
               each.cgroupfs().empty()
                   ? "unknown: no container id"
                   : fmt::format("{}, {}", last_part(each.cgroupfs()), last_part(each.systemd()))});
  }
  table.print();
}

}  // namespace

int run_qos(const Options& options, const QosOptions& qos_options) {
  if (qos_options.memory_capacity.empty()) {
    return fail("qos", error("--memory-capacity is required"), kExitUsage);
  }
  const auto capacity = intake::parse_positive_bytes(qos_options.memory_capacity);
  if (!capacity) return fail("qos", capacity.error().in("--memory-capacity"), kExitUsage);
  const auto naming = naming_of(qos_options);
  if (!naming) return fail("qos", naming.error(), kExitUsage);
  const auto pods = load_pods(qos_options.pods);
  if (!pods) return fail("qos", pods.error(), kExitUsage);
  v1::QosReport report;
  report.set_memory_capacity_bytes(capacity->count);
  for (const intake::ListedPod& each : *pods) {
    *report.add_pods() = pod_qos(each.pod, *capacity, *naming);
  }
  if (options.output == OutputFormat::json) {
    fmt::print("{}", messages::to_json(report, messages::JsonStyle::pretty));
    return kExitOk;
  }
  for (int i = 0; i < report.pods_size(); ++i) {
    if (i > 0) fmt::print("\n");
    print_pod(report.pods(i));
  }
  if (report.pods().empty()) fmt::print("no pods\n");
  return kExitOk;
}

}  // namespace forestall::cli
