// SPDX-License-Identifier: Apache-2.0
#include "messages/convert.h"
#include "text/utf8.h"

namespace forestall::messages {

v1::EffectiveMemoryQos to_proto(const MemoryQosConfig& qos) {
  v1::EffectiveMemoryQos out;
  out.set_mode(std::string(to_string(qos.mode)));
  if (qos.throttling_factor) out.set_throttling_factor(*qos.throttling_factor);
  out.set_reservation_policy(std::string(to_string(qos.reservation)));
  if (qos.kubelet_reserves) out.set_kubelet_reserves(*qos.kubelet_reserves);
  if (qos.kubelet_throttles) out.set_kubelet_throttles(*qos.kubelet_throttles);
  for (const MemoryQosCgroup& each : qos.cgroups) {
    v1::EffectiveMemoryQos::Cgroup& cgroup = *out.add_cgroups();
    cgroup.set_cgroup(text::to_utf8(each.path));
    if (each.min) cgroup.set_min(each.min->count);
    if (each.low) cgroup.set_low(each.low->count);
    if (each.high) cgroup.set_high(each.high->count);
  }
  return out;
}

Result<MemoryQosConfig> from_proto(const v1::EffectiveMemoryQos& message) {
  MemoryQosConfig qos;
  const auto mode = parse_memory_qos_mode(message.mode());
  if (!mode) return error("mode: unknown '" + message.mode() + "'");
  qos.mode = *mode;
  if (message.has_throttling_factor()) {
    const double factor = message.throttling_factor();
    if (!(factor > 0 && factor <= 1)) return error("throttlingFactor: not above 0 and at most 1");
    qos.throttling_factor = factor;
  }
  const auto reservation = parse_memory_reservation(message.reservation_policy());
  if (!reservation) {
    return error("reservationPolicy: unknown '" + message.reservation_policy() + "'");
  }
  qos.reservation = *reservation;
  if (message.has_kubelet_reserves()) qos.kubelet_reserves = message.kubelet_reserves();
  if (message.has_kubelet_throttles()) qos.kubelet_throttles = message.kubelet_throttles();
  for (const v1::EffectiveMemoryQos::Cgroup& each : message.cgroups()) {
    MemoryQosCgroup& cgroup = qos.cgroups.emplace_back();
    cgroup.path = each.cgroup();
    if (each.has_min()) cgroup.min = Bytes{each.min()};
    if (each.has_low()) cgroup.low = Bytes{each.low()};
    if (each.has_high()) cgroup.high = Bytes{each.high()};
  }
  return qos;
}

}  // namespace forestall::messages
