// SPDX-License-Identifier: Apache-2.0
#include "sources/rule_pressure.h"

#include <chrono>
#include <cstdint>

#include "kernel/memory_files.h"

namespace forestall::sources {
namespace {

std::optional<rulesets::PressureLine> rule_line(const std::optional<kernel::PsiLine>& line) {
  if (!line) return std::nullopt;
  const auto percent = [](std::uint32_t hundredths) {
    return static_cast<float>(static_cast<double>(hundredths) / 100);
  };
  return rulesets::PressureLine{
      percent(line->avg10_hundredths), percent(line->avg60_hundredths),
      percent(line->avg300_hundredths),
      std::chrono::duration_cast<std::chrono::microseconds>(line->total).count()};
}

}  // namespace

std::optional<rulesets::PressureFile> rule_pressure(std::string_view text) {
  const auto psi = kernel::parse_psi(text);
  if (!psi) return std::nullopt;
  return rulesets::PressureFile{rule_line(psi->some), rule_line(psi->full)};
}

}  // namespace forestall::sources
