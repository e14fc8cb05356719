// SPDX-License-Identifier: Apache-2.0
#include "intake/kubelet_flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "base/parse.h"

namespace forestall::intake {
namespace {

constexpr std::array kFlags{
    KubeletFlag{"eviction-hard", "evictionHard", "signal<value,...",
                "Hard thresholds, e.g. memory.available<500Mi,nodefs.available<10%", false},
    KubeletFlag{"eviction-soft", "evictionSoft", "signal<value,...", "Soft thresholds", false},
    KubeletFlag{"eviction-soft-grace-period", "evictionSoftGracePeriod", "signal=duration,...",
                "How long each soft threshold must be met, e.g. memory.available=1m30s", false},
    KubeletFlag{"eviction-minimum-reclaim", "evictionMinimumReclaim", "signal=value,...",
                "How much more than a threshold to make available", false},
    KubeletFlag{"eviction-max-pod-grace-period", "evictionMaxPodGracePeriod", "seconds",
                "Longest grace period of pods that soft thresholds evict", false},
    KubeletFlag{"eviction-pressure-transition-period", "evictionPressureTransitionPeriod",
                "duration", "How long a condition is reported after its last threshold was met",
                false},
    KubeletFlag{"kube-reserved", "kubeReserved", "resource=amount,...",
                "Reserved for Kubernetes' daemons: cpu, memory, ephemeral-storage, pid", false},
    KubeletFlag{"system-reserved", "systemReserved", "resource=amount,...",
                "Reserved for the system's daemons: cpu, memory, ephemeral-storage, pid", false},
    KubeletFlag{"enforce-node-allocatable", "enforceNodeAllocatable", "word,...",
                "What kubelet sets limits on: pods, system-reserved, kube-reserved, none", false},
    KubeletFlag{"cgroup-driver", "cgroupDriver", "cgroupfs|systemd",
                "How the cgroups of pods are named", false},
    KubeletFlag{"cgroup-root", "cgroupRoot", "path", "Parent cgroup of kubepods", false},
    KubeletFlag{"kernel-memcg-notification", "kernelMemcgNotification", "true|false",
                "Accepted for compatibility and ignored: Forestall always uses kernel events",
                true},
    KubeletFlag{"local-storage-capacity-isolation", "localStorageCapacityIsolation", "true|false",
                "Evict pods that exceed their limits on local storage", true},
};

// strconv.ParseInt(text, 0, 32): the prefix selects the base, and allows underscores between
// digits.
std::optional<std::int32_t> go_int32(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char prefix = static_cast<char>(text[1] | 0x20);
    base = prefix == 'x' ? 16 : prefix == 'b' ? 2 : 8;
    text.remove_prefix(prefix == 'x' || prefix == 'b' || prefix == 'o' ? 2 : 1);
    if (text.starts_with('_')) text.remove_prefix(1);
  }
  const bool prefixed = base != 10;
  std::string digits;
  char before = '_';
  for (const char c : text) {
    if (c == '_' && (before == '_' || !prefixed)) return std::nullopt;
    if (c != '_') digits += c;
    before = c;
  }
  if (before == '_' || digits.starts_with('-')) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, failure] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (failure != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  if (negative) value = -value;
  if (value < std::numeric_limits<std::int32_t>::min() ||
      value > std::numeric_limits<std::int32_t>::max()) {
    return std::nullopt;
  }
  return static_cast<std::int32_t>(value);
}

// strconv.ParseBool().
std::optional<bool> go_bool(std::string_view text) {
  for (const std::string_view yes : {"1", "t", "T", "true", "TRUE", "True"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

class FlagReader {
 public:
  FlagReader(const KubeletFlag& flag, std::vector<text::Finding>& errors)
      : flag_(flag), origin_{"--" + std::string(flag.name), std::nullopt}, errors_(errors) {}

  [[nodiscard]] const text::Origin& origin() const { return origin_; }

  // A repeated flag extends the map; a repeated key replaces the value and keeps its position.
  void read(const std::vector<std::string>& given, WrittenPairs& out) {
    const bool threshold = std::string_view(flag_.form).find('<') != std::string_view::npos;
    const char separator = threshold ? '<' : '=';
    for (std::string_view text : given) {
      while (!text.empty()) {
        const std::string_view item = next_field(text, ',');
        if (!item.empty()) pair(item, separator, out);
      }
    }
  }

  void read(const std::vector<std::string>& given, std::vector<std::string>& out) {
    for (std::string_view text : given) {
      while (!text.empty()) out.emplace_back(next_field(text, ','));
    }
  }

  void read(const std::vector<std::string>& given, std::string& out) { out = given.back(); }
  void read(const std::vector<std::string>& given, DurationText& out) { out.text = given.back(); }
  void read(const std::vector<std::string>& given, NumberText& out) { out.text = given.back(); }

  void read(const std::vector<std::string>& given, bool& out) {
    for (const std::string& text : given) {
      const auto value = go_bool(text);
      if (!value) return error("must be true or false, found '" + text + "'");
      out = *value;
    }
  }

  void read(const std::vector<std::string>& given, std::int32_t& out) {
    for (const std::string& text : given) {
      const auto value = go_int32(text);
      if (!value) {
        return error("must be a whole number from -2147483648 to 2147483647, found '" + text + "'");
      }
      out = *value;
    }
  }

 private:
  void error(std::string message) { errors_.push_back({origin_, std::move(message)}); }

  void pair(std::string_view item, char separator, WrittenPairs& out) {
    const std::size_t at = item.find(separator);
    if (at == std::string_view::npos) {
      return error(std::string("malformed pair, expect string") + separator + "string, found '" +
                   std::string(item) + "'");
    }
    const std::string key(trim(item.substr(0, at)));
    const std::string value(trim(item.substr(at + 1)));
    const auto known = std::find_if(out.begin(), out.end(),
                                    [&](const WrittenPair& each) { return each.key == key; });
    if (known != out.end()) {
      known->value = value;
    } else {
      out.push_back({key, value, origin_, origin_});
    }
  }

  const KubeletFlag& flag_;
  text::Origin origin_;
  std::vector<text::Finding>& errors_;
};

}  // namespace

std::span<const KubeletFlag> kubelet_flags() {
  return kFlags;
}

KubeletSettings read_kubelet_flags(const GivenFlags& given, std::vector<text::Finding>& errors) {
  KubeletSettings settings;
  for_each_setting([&](std::string_view key, auto member) {
    const auto flag = std::find_if(kFlags.begin(), kFlags.end(),
                                   [&](const KubeletFlag& each) { return each.key == key; });
    if (flag == kFlags.end()) return;
    const auto values = given.find(flag->name);
    if (values == given.end() || values->second.empty()) return;
    FlagReader reader(*flag, errors);
    auto& setting = (settings.*member).emplace();
    setting.key = setting.at = reader.origin();
    reader.read(values->second, setting.value);
  });
  if (auto& root = settings.cgroup_root) root->value = cgroup_root_path(root->value);
  settings.hard_by_flag = settings.eviction_hard.has_value();
  return settings;
}

}  // namespace forestall::intake
