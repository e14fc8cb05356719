// SPDX-License-Identifier: Apache-2.0
#include "sources/task_reader.h"

#include <fcntl.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/parse.h"

namespace forestall::sources {
namespace {

Result<kernel::HeldFile> open_held(const std::string& path) {
  return kernel::HeldFile::open(AT_FDCWD, path.c_str(), path);
}

// Each of these files is one line, complete after one read. For each read of a sysctl the kernel
// allocates and zeroes as much memory as requested (fs/proc/proc_sysctl.c proc_sys_call_handler).
// With the buffer of the other files that would be 64 KiB while memory is short.
using ShortText = std::array<char, 128>;

Result<std::string_view> read_line(const Result<kernel::HeldFile>& file, ShortText& text) {
  if (!file) return file.error();
  const auto got = ::pread(file->fd(), text.data(), text.size(), 0);
  if (got < 0) return errno_error("read", file->name());
  return std::string_view(text.data(), static_cast<std::size_t>(got));
}

// A positive number, or the reason why there is none.
Result<std::int64_t> read_limit(const Result<kernel::HeldFile>& file) {
  ShortText line;
  const auto value = parse_i64(trim(TRY(read_line(file, line))));
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
    : pid_max_(open_held(proc + "/sys/kernel/pid_max")),
      threads_max_(open_held(proc + "/sys/kernel/threads-max")),
      loadavg_(open_held(proc + "/loadavg")) {}

std::optional<std::int64_t> TaskReader::capacity(std::vector<SourceNote>& notes) const {
  const auto pids = read_limit(pid_max_);
  const auto threads = read_limit(threads_max_);
  if (pids && threads) return std::min(*pids, *threads);
  if (!pids) notes.push_back({"pid_max", pids.error().text()});
  if (!threads) notes.push_back({"threads-max", threads.error().text()});
  return pids ? pids.optional() : threads.optional();
}

std::optional<std::int64_t> TaskReader::running(std::vector<SourceNote>& notes) const {
  ShortText line;
  if (const auto text = read_line(loadavg_, line)) {
    if (const auto total = parse_task_total(*text)) return total;
  }
  struct sysinfo node {};
  if (::sysinfo(&node) == 0) return node.procs;
  notes.push_back({"loadavg", errno_error("sysinfo", "tasks").text()});
  return std::nullopt;
}

TaskSample TaskReader::read(MonotonicTime now, std::vector<SourceNote>& notes) const {
  return {capacity(notes), running(notes), now};
}

}  // namespace forestall::sources
