// SPDX-License-Identifier: Apache-2.0
#include "model/allocatable.h"

namespace forestall {

std::string_view to_string(Enforcement enforcement) {
  switch (enforcement) {
    case Enforcement::pods: return "pods";
    case Enforcement::system_reserved: return "system-reserved";
    case Enforcement::kube_reserved: return "kube-reserved";
    case Enforcement::system_reserved_compressible: return "system-reserved-compressible";
    case Enforcement::kube_reserved_compressible: return "kube-reserved-compressible";
  }
  return "";
}

std::optional<Enforcement> parse_enforcement(std::string_view text) {
  for (const Enforcement enforcement : kEnforcements) {
    if (to_string(enforcement) == text) return enforcement;
  }
  return std::nullopt;
}

}  // namespace forestall
