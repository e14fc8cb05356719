// SPDX-License-Identifier: Apache-2.0
#include "intake/kubelet_own_config.h"

#include <utility>
#include <vector>

#include "intake/kubelet_config.h"
#include "intake/memory_qos_config.h"
#include "model/memory_qos.h"

namespace forestall::intake {
namespace {

// The first kubelet with the gate MemoryQoS on, and without a default throttling factor.
constexpr int kMemoryQosByDefault = 37;

MemoryQosSettings memory_qos_of(std::string_view text, const std::string& file, int minor,
                                text::Findings& findings) {
  MemoryQosSettings settings;
  settings.kubelet_minor = minor;
  settings.enabled = minor >= kMemoryQosByDefault;
  settings.throttling_factor = default_throttling_factor(minor);
  read_memory_qos_config(text, file, std::nullopt, settings, findings);
  // What it throttles with; nullopt: it writes no memory.high.
  if (!settings.enabled) settings.throttling_factor.reset();
  return settings;
}

}  // namespace

Result<KubeletOwnConfig> read_kubelet_own_config(const std::string& file, KubeletMinor minor,
                                                 const ReadFile& read) {
  const std::string text = TRY(read(file));
  text::Findings findings;
  const KubeletSettings settings = read_kubelet_config(text, file, findings.errors);
  KubeletOwnConfig own;
  std::vector<ThresholdOrigin> origins;
  apply_settings(settings, minor, own.config, origins, findings);
  // The errors of eviction settings are those above.
  text::Findings of_memory_qos;
  const int last = minor.value_or(kMemoryQosByDefault);
  const MemoryQosSettings last_qos = memory_qos_of(text, file, last, of_memory_qos);
  const MemoryQosSettings earlier_qos =
      minor ? last_qos : memory_qos_of(text, file, kMemoryQosByDefault - 1, of_memory_qos);
  const auto& of_last = last_qos.throttling_factor;
  const auto& of_earlier = earlier_qos.throttling_factor;
  if (findings.errors.empty()) findings.errors = std::move(of_memory_qos.errors);
  if (!findings.errors.empty()) return error(text::format(findings.errors));
  if (of_last.has_value() == of_earlier.has_value()) own.writes_memory_high = of_last.has_value();
  if (of_last == of_earlier) own.throttling_factor = of_last;
  if (last_qos.enabled == earlier_qos.enabled) own.writes_memory_protection = last_qos.enabled;
  return own;
}

}  // namespace forestall::intake
