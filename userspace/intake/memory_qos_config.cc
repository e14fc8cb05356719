// SPDX-License-Identifier: Apache-2.0
#include "intake/memory_qos_config.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "base/parse.h"
#include "intake/eviction_settings.h"
#include "intake/kubelet_config.h"
#include "text/yaml_tree.h"

namespace forestall::intake {
namespace {

constexpr const char* kFactor = "memoryThrottlingFactor";
constexpr const char* kPolicy = "memoryReservationPolicy";
constexpr const char* kGates = "featureGates";
constexpr int kPolicySince = 36;

const text::YamlEntry* find_entry(const text::YamlNode& map, std::string_view key) {
  const auto found = std::find_if(map.entries.begin(), map.entries.end(),
                                  [key](const text::YamlEntry& each) { return each.key == key; });
  const bool given = found != map.entries.end() && found->value.kind != text::YamlNode::Kind::null;
  return given ? &*found : nullptr;
}

bool is_plain_scalar(const text::YamlNode& node) {
  return node.kind == text::YamlNode::Kind::scalar && !node.quoted;
}

class MemoryQosReader {
 public:
  MemoryQosReader(const std::string& file, MemoryQosSettings& settings, text::Findings& findings)
      : file_(file), settings_(settings), findings_(findings) {}

  void read(const text::YamlNode& root) {
    if (const text::YamlEntry* gates = find_entry(root, kGates)) gate(gates->value);
    if (const text::YamlEntry* given = find_entry(root, kFactor)) factor(given->value);
    if (const text::YamlEntry* given = find_entry(root, kPolicy)) policy(*given);
  }

 private:
  void error(text::Position at, std::string message) {
    findings_.errors.push_back({{file_, at}, std::move(message)});
  }

  void gate(const text::YamlNode& gates) {
    if (gates.kind != text::YamlNode::Kind::map) {
      error(gates.at, "'featureGates' must be a map, found " + text::describe(gates));
      return;
    }
    const text::YamlEntry* given = find_entry(gates, "MemoryQoS");
    if (given == nullptr) return;
    const text::YamlNode& node = given->value;
    if (is_plain_scalar(node) && (node.text == "true" || node.text == "false")) {
      settings_.enabled = node.text == "true";
    } else {
      error(node.at,
            "'MemoryQoS' in 'featureGates' must be true or false, found " + text::describe(node));
    }
  }

  void factor(const text::YamlNode& node) {
    double factor = 0;
    const char* const end = node.text.data() + node.text.size();
    const auto read = std::from_chars(node.text.data(), end, factor);
    if (!is_plain_scalar(node) || read.ec != std::errc() || read.ptr != end) {
      error(node.at, "'memoryThrottlingFactor' must be a number, found " + text::describe(node));
    } else if (!(factor > 0 && factor <= 1)) {
      error(node.at,
            "'memoryThrottlingFactor' must be greater than 0 and less than or equal to "
            "1.0, found " +
                node.text);
    } else {
      settings_.throttling_factor = factor;
    }
  }

  void policy(const text::YamlEntry& given) {
    const text::YamlNode& node = given.value;
    const bool is_text = node.kind == text::YamlNode::Kind::scalar;
    if (!is_text || (node.text != "None" && node.text != "TieredReservation")) {
      error(node.at, "'memoryReservationPolicy' must be None or TieredReservation, found " +
                         text::describe(node));
      return;
    }
    if (settings_.kubelet_minor < kPolicySince) {
      findings_.warnings.push_back(
          {{file_, given.at},
           "'memoryReservationPolicy' is ignored: kubelets before 1.36 do not have it"});
      return;
    }
    settings_.reservation =
        node.text == "None" ? MemoryReservation::none : MemoryReservation::tiered;
  }

  const std::string& file_;
  MemoryQosSettings& settings_;
  text::Findings& findings_;
};

std::int64_t bytes_or_zero(const std::optional<Quantity>& amount) {
  return amount ? amount->value() : 0;
}

// pkg/kubelet/cm node_container_manager_linux.go getNodeAllocatableInternalAbsolute().
std::int64_t allocatable_memory(std::int64_t capacity, const Reserved& kube,
                                const Reserved& system) {
  const std::int64_t left = std::max<std::int64_t>(capacity - bytes_or_zero(kube.memory), 0);
  return std::max<std::int64_t>(left - bytes_or_zero(system.memory), 0);
}

}  // namespace

void read_memory_qos_config(std::string_view text, const std::string& file,
                            std::optional<Bytes> capacity, MemoryQosSettings& settings,
                            text::Findings& findings) {
  const KubeletSettings kubelet = read_kubelet_config(text, file, findings.errors);
  Config config;
  config.pods = true;
  std::vector<ThresholdOrigin> origins;
  text::Findings of_eviction;  // its warnings are of no use here
  apply_settings(kubelet, settings.kubelet_minor, config, origins, of_eviction);
  findings.errors.insert(findings.errors.end(), of_eviction.errors.begin(),
                         of_eviction.errors.end());
  if (capacity) {
    settings.node_allocatable =
        allocatable_memory(capacity->count, config.kube_reserved, config.system_reserved);
  }
  std::vector<text::Diagnostic> reported;  // by read_kubelet_config()
  const auto root = text::parse_yaml(text, reported);
  if (!root || root->kind != text::YamlNode::Kind::map) return;
  MemoryQosReader(file, settings, findings).read(*root);
}

std::optional<int> parse_kubelet_minor(std::string_view version) {
  if (version.starts_with('v')) version.remove_prefix(1);
  if (!version.starts_with("1.")) return std::nullopt;
  version.remove_prefix(2);
  const std::size_t digits = std::min(version.find_first_not_of("0123456789"), version.size());
  const auto minor = parse_u64(version.substr(0, digits));
  const bool ends = digits == version.size() || version[digits] == '.' || version[digits] == '-' ||
                    version[digits] == '+';
  if (!minor || !ends || *minor > 1000) return std::nullopt;
  return static_cast<int>(*minor);
}

}  // namespace forestall::intake
