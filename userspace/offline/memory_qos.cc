// SPDX-License-Identifier: Apache-2.0
// `forestall qos --memory-qos`: what kubelet's memory QoS writes to memory.min, memory.low and
// memory.high.

#include <fmt/format.h>
#include <unistd.h>

#include <vector>

#include "base/parse.h"
#include "base/printable.h"
#include "cli/exit_code.h"
#include "cli/pod_input.h"
#include "cli/rules_input.h"
#include "intake/amounts.h"
#include "intake/memory_qos_config.h"
#include "offline/commands.h"
#include "offline/refusal.h"
#include "policy/memory_qos.h"
#include "tables/table.h"
#include "text/json_output.h"

namespace forestall::cli {
namespace {

using text::JsonOutput;

text::Finding wrong_option(const char* option, std::string message) {
  return {{option, std::nullopt}, std::move(message)};
}

class MemoryQosInput {
 public:
  MemoryQosInput(const QosOptions& qos, const MemoryQosOptions& options, text::Findings& findings)
      : qos_(qos), options_(options), findings_(findings) {}

  MemoryQosSettings settings() {
    MemoryQosSettings settings;
    settings.page_size = ::sysconf(_SC_PAGESIZE);
    version(settings);
    page_size(settings);
    allocatable(settings);
    return settings;
  }

 private:
  void error(const char* option, std::string message) {
    findings_.errors.push_back(wrong_option(option, std::move(message)));
  }

  std::optional<Bytes> amount(const char* option, const std::string& text) {
    if (text.empty()) return std::nullopt;
    const auto bytes = intake::parse_bytes(text);
    if (bytes) return *bytes;
    error(option, bytes.error().message);
    return std::nullopt;
  }

  void version(MemoryQosSettings& settings) {
    if (!options_.kubelet_version.empty()) {
      const auto minor = intake::parse_kubelet_minor(options_.kubelet_version);
      if (minor && *minor >= 22) {
        settings.kubelet_minor = *minor;
      } else {
        error("--kubelet-version", fmt::format("expected a version from 1.22 on, such as 1.37, "
                                               "found '{}'",
                                               printable(options_.kubelet_version)));
      }
    }
    settings.throttling_factor = default_throttling_factor(settings.kubelet_minor);
  }

  void page_size(MemoryQosSettings& settings) {
    if (options_.page_size.empty()) return;
    const auto bytes = amount("--page-size", options_.page_size);
    if (!bytes) return;
    if (bytes->count <= 0) {
      error("--page-size", "must be greater than 0");
    } else {
      settings.page_size = bytes->count;
    }
  }

  void allocatable(MemoryQosSettings& settings) {
    if (qos_.memory_capacity.empty() && options_.node_allocatable.empty()) {
      error("--memory-capacity", "required, or --node-allocatable");
    }
    const auto capacity = amount("--memory-capacity", qos_.memory_capacity);
    if (!options_.kubelet_config.empty()) {
      const auto text = read_input(options_.kubelet_config);
      if (text) {
        intake::read_memory_qos_config(*text, options_.kubelet_config, capacity, settings,
                                       findings_);
      } else {
        findings_.errors.push_back(finding_in(options_.kubelet_config, text.error()));
      }
    } else if (capacity) {
      settings.node_allocatable = capacity->count;
    }
    const auto given = amount("--node-allocatable", options_.node_allocatable);
    if (given) settings.node_allocatable = given->count;
  }

  const QosOptions& qos_;
  const MemoryQosOptions& options_;
  text::Findings& findings_;
};

JsonOutput amount_json(const std::optional<std::int64_t>& bytes) {
  if (!bytes) return {};
  if (*bytes == policy::kNoThrottling) return "max";
  return *bytes;
}

std::string qos_amount_text(const std::optional<std::int64_t>& bytes) {
  if (!bytes) return "-";
  return *bytes == policy::kNoThrottling ? "max" : fmt::format("{}", *bytes);
}

const char* kind_of_init(const PodContainer& container) {
  return container.restartable ? "sidecar" : "init-container";
}

JsonOutput container_json(const policy::ContainerMemoryQos& container, const char* kind) {
  JsonOutput out = JsonOutput::object();
  out.set("name", container.name)
      .set("kind", kind)
      .set("min", amount_json(container.protection.min))
      .set("low", amount_json(container.protection.low))
      .set("high", amount_json(container.high));
  return out;
}

JsonOutput pod_json(const Pod& pod, const policy::PodMemoryQos& values) {
  JsonOutput containers = JsonOutput::list();
  for (const auto& each : values.containers) containers.add(container_json(each, "container"));
  for (std::size_t i = 0; i < values.init_containers.size(); ++i) {
    containers.add(container_json(values.init_containers[i], kind_of_init(pod.init_containers[i])));
  }
  JsonOutput name = JsonOutput::object();
  name.set("namespace", pod.pod_namespace).set("name", pod.name).set("uid", pod.uid);
  JsonOutput out = JsonOutput::object();
  out.set("pod", std::move(name))
      .set("qosClass", to_string(values.qos))
      .set("active", values.active)
      .set("min", amount_json(values.protection.min))
      .set("low", amount_json(values.protection.low))
      .set("containers", std::move(containers));
  return out;
}

JsonOutput levels_json(const policy::MemoryQosLevels& levels) {
  JsonOutput burstable = JsonOutput::object();
  burstable.set("min", amount_json(levels.burstable.min))
      .set("low", amount_json(levels.burstable.low));
  JsonOutput kubepods = JsonOutput::object();
  kubepods.set("min", amount_json(levels.kubepods_min));
  JsonOutput out = JsonOutput::object();
  out.set("burstable", std::move(burstable)).set("kubepods", std::move(kubepods));
  return out;
}

JsonOutput settings_json(const MemoryQosSettings& settings) {
  JsonOutput out = JsonOutput::object();
  out.set("kubeletVersion", fmt::format("1.{}", settings.kubelet_minor))
      .set("enabled", settings.enabled)
      .set("memoryReservationPolicy",
           settings.reservation == MemoryReservation::none ? "None" : "TieredReservation")
      .set("memoryThrottlingFactor",
           settings.throttling_factor ? JsonOutput(*settings.throttling_factor) : JsonOutput())
      .set("nodeAllocatableBytes", settings.node_allocatable)
      .set("pageSizeBytes", settings.page_size);
  return out;
}

void print_memory_qos_json(const std::vector<Pod>& pods, const MemoryQosSettings& settings) {
  JsonOutput list = JsonOutput::list();
  for (const Pod& each : pods) list.add(pod_json(each, policy::memory_qos(each, settings)));
  JsonOutput report = JsonOutput::object();
  report.set("settings", settings_json(settings))
      .set("pods", std::move(list))
      .set("levels", levels_json(policy::memory_qos_levels(pods, settings)));
  fmt::print("{}", report.pretty());
}

void print_memory_qos_text(const std::vector<Pod>& pods, const MemoryQosSettings& settings) {
  tables::Table table({"cgroup", "QoS class", "memory.min", "memory.low", "memory.high"});
  const policy::MemoryQosLevels levels = policy::memory_qos_levels(pods, settings);
  table.add({"all pods", "-", qos_amount_text(levels.kubepods_min), "-", "-"});
  table.add({"burstable pods", "-", qos_amount_text(levels.burstable.min),
             qos_amount_text(levels.burstable.low), "-"});
  for (const Pod& pod : pods) {
    const policy::PodMemoryQos values = policy::memory_qos(pod, settings);
    table.add({qualified_name(pod), std::string(to_string(values.qos)),
               qos_amount_text(values.protection.min), qos_amount_text(values.protection.low),
               "-"});
    for (const auto* containers : {&values.containers, &values.init_containers}) {
      for (const policy::ContainerMemoryQos& each : *containers) {
        table.add({"  " + each.name, "-", qos_amount_text(each.protection.min),
                   qos_amount_text(each.protection.low), qos_amount_text(each.high)});
      }
    }
  }
  table.print();
}

}  // namespace

int run_memory_qos(const Options& options, const QosOptions& qos,
                   const MemoryQosOptions& memory_qos) {
  text::Findings findings;
  const MemoryQosSettings settings = MemoryQosInput(qos, memory_qos, findings).settings();
  auto listed = load_pods(qos.pods);
  if (!listed) findings.errors.push_back(finding_in(qos.pods, listed.error()));
  if (!findings.errors.empty()) return refuse(options, findings);
  for (const std::string& each : text::format_each(findings.warnings)) {
    fmt::print(stderr, "warning: {}\n", printable_lines(each));
  }
  std::vector<Pod> pods;
  for (intake::ListedPod& each : *listed) pods.push_back(std::move(each.pod));
  if (options.output == OutputFormat::json) {
    print_memory_qos_json(pods, settings);
  } else {
    print_memory_qos_text(pods, settings);
  }
  return kExitOk;
}

}  // namespace forestall::cli
