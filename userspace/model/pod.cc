// SPDX-License-Identifier: Apache-2.0
#include "model/pod.h"

namespace forestall {

std::string_view to_string(QosClass qos) {
  switch (qos) {
    case QosClass::guaranteed: return "Guaranteed";
    case QosClass::burstable: return "Burstable";
    case QosClass::best_effort: return "BestEffort";
  }
  return "";
}

std::optional<QosClass> parse_qos_class(std::string_view text) {
  for (const QosClass qos : {QosClass::guaranteed, QosClass::burstable, QosClass::best_effort}) {
    if (to_string(qos) == text) return qos;
  }
  return std::nullopt;
}

std::string_view to_string(CgroupDriver driver) {
  return driver == CgroupDriver::cgroupfs ? "cgroupfs" : "systemd";
}

std::optional<CgroupDriver> parse_cgroup_driver(std::string_view text) {
  for (const CgroupDriver driver : {CgroupDriver::cgroupfs, CgroupDriver::systemd}) {
    if (to_string(driver) == text) return driver;
  }
  return std::nullopt;
}

}  // namespace forestall
