// SPDX-License-Identifier: Apache-2.0
#include "model/memory_qos.h"

namespace forestall {

std::string_view to_string(MemoryQosMode mode) {
  switch (mode) {
    case MemoryQosMode::off: return "off";
    case MemoryQosMode::observe: return "observe";
    case MemoryQosMode::enforce: return "enforce";
  }
  return "";
}

std::optional<MemoryQosMode> parse_memory_qos_mode(std::string_view text) {
  for (const auto mode : {MemoryQosMode::off, MemoryQosMode::observe, MemoryQosMode::enforce}) {
    if (to_string(mode) == text) return mode;
  }
  return std::nullopt;
}

std::string_view to_string(MemoryReservation reservation) {
  switch (reservation) {
    case MemoryReservation::none: return "None";
    case MemoryReservation::tiered: return "TieredReservation";
  }
  return "";
}

std::optional<MemoryReservation> parse_memory_reservation(std::string_view text) {
  for (const auto reservation : {MemoryReservation::none, MemoryReservation::tiered}) {
    if (to_string(reservation) == text) return reservation;
  }
  return std::nullopt;
}

const char* to_string(MemoryQosFile file) {
  switch (file) {
    case MemoryQosFile::min: return "memory.min";
    case MemoryQosFile::low: return "memory.low";
    case MemoryQosFile::high: return "memory.high";
  }
  return "";
}

std::string_view to_string(MemoryQosState state) {
  switch (state) {
    case MemoryQosState::equal: return "equal";
    case MemoryQosState::would_write: return "would-write";
    case MemoryQosState::written: return "written";
    case MemoryQosState::lifted: return "lifted";
    case MemoryQosState::left: return "left";
    case MemoryQosState::failed: return "failed";
  }
  return "";
}

}  // namespace forestall
