// SPDX-License-Identifier: Apache-2.0
#include "exports/process_metrics.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "base/parse.h"

namespace forestall::exports {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

// proc(5), /proc/PID/stat: the fields after the name; the first of them is number 3.
constexpr std::size_t kFirstField = 3;
constexpr std::size_t kStartTime = 22;
constexpr std::size_t kVirtualSize = 23;
constexpr std::size_t kResident = 24;

// The name of the process may contain blanks and parentheses; the last one closes it.
std::vector<std::string> stat_fields() {
  std::ifstream file("/proc/self/stat");
  std::stringstream text;
  text << file.rdbuf();
  const std::string whole = text.str();
  std::vector<std::string> fields;
  const auto name_end = whole.rfind(')');
  if (name_end == std::string::npos) return fields;
  std::string_view rest = std::string_view(whole).substr(name_end + 1);
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    fields.emplace_back(word);
  }
  return fields;
}

std::optional<double> field(const std::vector<std::string>& fields, std::size_t number) {
  if (number - kFirstField >= fields.size()) return std::nullopt;
  const auto value = parse_u64(fields[number - kFirstField]);
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

double seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::optional<double> open_files() {
  std::error_code failed;
  const std::filesystem::directory_iterator all("/proc/self/fd", failed);
  if (failed) return std::nullopt;
  // Without the descriptor of the directory itself, which is closed again.
  return static_cast<double>(std::distance(begin(all), end(all))) - 1;
}

std::optional<double> open_files_max() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return static_cast<double>(limit.rlim_cur);
}

void add(std::vector<MetricFamily>& families, const char* name, const char* help, MetricType type,
         std::optional<double> value) {
  if (!value) return;
  MetricFamily family{name, help, type, {}};
  family.metric.emplace_back();
  family.metric.front().counter.value = *value;  // the serializer uses the member for the type
  family.metric.front().gauge.value = *value;
  families.push_back(std::move(family));
}

}  // namespace

std::vector<MetricFamily> ProcessMetrics::Collect() const {
  const auto fields = stat_fields();
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  const auto resident = field(fields, kResident);
  const auto start = field(fields, kStartTime);
  std::optional<double> started;
  if (start) {
    started = seconds(CLOCK_REALTIME) - seconds(CLOCK_BOOTTIME) +
              *start / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  std::vector<MetricFamily> all;
  add(all, "process_cpu_seconds_total", "User and system CPU time, in seconds.",
      MetricType::Counter, seconds(CLOCK_PROCESS_CPUTIME_ID));
  add(all, "process_resident_memory_bytes", "Resident memory, in bytes.", MetricType::Gauge,
      resident ? std::optional(*resident * page) : std::nullopt);
  add(all, "process_virtual_memory_bytes", "Virtual memory, in bytes.", MetricType::Gauge,
      field(fields, kVirtualSize));
  add(all, "process_open_fds", "Open file descriptors.", MetricType::Gauge, open_files());
  add(all, "process_max_fds", "Limit of open file descriptors.", MetricType::Gauge,
      open_files_max());
  add(all, "process_start_time_seconds", "Start time of the process, in seconds since the epoch.",
      MetricType::Gauge, started);
  return all;
}

}  // namespace forestall::exports
