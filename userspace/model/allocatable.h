// SPDX-License-Identifier: Apache-2.0
// What kubelet keeps from the node's pods: its reservations (kubeReserved, systemReserved) and what
// it enforces (enforceNodeAllocatable). Facts as configured; policy/plan.h computes with them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "model/quantity.h"

namespace forestall {

// Amounts by resource; an undeclared one reserves nothing.
struct Reserved {
  std::optional<Quantity> cpu;  // cores
  std::optional<Quantity> memory;
  std::optional<Quantity> ephemeral_storage;
  std::optional<Quantity> pids;

  friend bool operator==(const Reserved&, const Reserved&) = default;
};

// The cgroups that get a limit (pkg/kubelet/types/constants.go).
enum class Enforcement : std::uint8_t {
  pods,
  system_reserved,
  kube_reserved,
  system_reserved_compressible,  // CPU only
  kube_reserved_compressible,
};

inline constexpr std::array kEnforcements{
    Enforcement::pods, Enforcement::system_reserved, Enforcement::kube_reserved,
    Enforcement::system_reserved_compressible, Enforcement::kube_reserved_compressible};

// "pods", "system-reserved", "kube-reserved", "system-reserved-compressible", …
[[nodiscard]] std::string_view to_string(Enforcement enforcement);
[[nodiscard]] std::optional<Enforcement> parse_enforcement(std::string_view text);

}  // namespace forestall
