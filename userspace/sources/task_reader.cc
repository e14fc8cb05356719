// SPDX-License-Identifier: Apache-2.0
#include "sources/task_reader.h"

#include <fcntl.h>
#include <sys/sysinfo.h>

#include <algorithm>

#include "base/parse.h"

namespace forestall::sources {
namespace {

Result<kernel::HeldFile> hold(const std::string& path) {
  return kernel::HeldFile::open(AT_FDCWD, path.c_str(), path);
}

// A positive number, or why there is none.
Result<std::int64_t> read_limit(const Result<kernel::HeldFile>& file, std::string& buffer) {
  if (!file) return file.error();
  const auto value = parse_i64(trim(TRY(file->read(buffer))));
  if (!value || *value <= 0) return error(file->name() + ": not a number of tasks");
  return *value;
}

}  // namespace

std::optional<std::int64_t> parse_task_total(std::string_view loadavg) {
  for (int averages = 0; averages < 3; ++averages) next_word(loadavg);
  auto field = next_word(loadavg);
  const auto runnable = parse_i64(next_field(field, '/'));
  const auto total = parse_i64(field);
  if (!runnable || !total || *runnable < 0 || *total < *runnable) return std::nullopt;
  return total;
}

TaskReader::TaskReader(const std::string& proc)
    : pid_max_(hold(proc + "/sys/kernel/pid_max")),
      threads_max_(hold(proc + "/sys/kernel/threads-max")),
      loadavg_(hold(proc + "/loadavg")) {}

std::optional<std::int64_t> TaskReader::capacity(std::string& buffer,
                                                 std::vector<SourceNote>& notes) const {
  const auto pids = read_limit(pid_max_, buffer);
  const auto threads = read_limit(threads_max_, buffer);
  if (pids && threads) return std::min(*pids, *threads);
  if (!pids) notes.push_back({"pid_max", pids.error().text()});
  if (!threads) notes.push_back({"threads-max", threads.error().text()});
  return pids ? pids.optional() : threads.optional();
}

std::optional<std::int64_t> TaskReader::running(std::string& buffer,
                                                std::vector<SourceNote>& notes) const {
  if (loadavg_) {
    const auto text = loadavg_->read(buffer);
    if (text) {
      if (const auto total = parse_task_total(*text)) return total;
    }
  }
  struct sysinfo node {};
  if (::sysinfo(&node) == 0) return node.procs;
  notes.push_back({"loadavg", errno_error("sysinfo", "tasks").text()});
  return std::nullopt;
}

TaskSample TaskReader::read(MonotonicTime now, std::string& buffer,
                            std::vector<SourceNote>& notes) const {
  return {capacity(buffer, notes), running(buffer, notes), now};
}

}  // namespace forestall::sources
