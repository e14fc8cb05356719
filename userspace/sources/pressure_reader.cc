// SPDX-License-Identifier: Apache-2.0
#include "sources/pressure_reader.h"

#include <fcntl.h>

#include "kernel/memory_files.h"
#include "kernel/reclaim_counts.h"

namespace forestall::sources {
namespace {

std::optional<kernel::HeldFile> held(const std::string& path) {
  auto file = kernel::HeldFile::open(AT_FDCWD, path.c_str(), path);
  if (!file) return std::nullopt;
  return std::move(*file);
}

std::string_view text_of(const std::optional<kernel::HeldFile>& file, std::string& buffer) {
  if (!file) return {};
  const auto text = file->read(buffer);
  return text ? *text : std::string_view();
}

}  // namespace

MemoryPressure parse_memory_pressure(std::string_view psi, std::string_view vmstat) {
  MemoryPressure pressure;
  if (const auto parsed = kernel::parse_psi(psi)) {
    if (parsed->some) pressure.some = parsed->some->total;
    if (parsed->full) pressure.full = parsed->full->total;
  }
  const kernel::ReclaimCounts counts = kernel::parse_reclaim_counts(vmstat);
  pressure.scanned = counts.scanned;
  pressure.reclaimed = counts.reclaimed;
  pressure.stalls = counts.stalls;
  return pressure;
}

PressureReader::PressureReader(const std::string& proc)
    : psi_(held(proc + "/pressure/memory")), vmstat_(held(proc + "/vmstat")) {}

MemoryPressure PressureReader::read(MonotonicTime now) {
  const std::string_view psi = text_of(psi_, psi_buffer_);
  MemoryPressure pressure = parse_memory_pressure(psi, text_of(vmstat_, vmstat_buffer_));
  pressure.at = now;
  return pressure;
}

}  // namespace forestall::sources
