// SPDX-License-Identifier: Apache-2.0
#include "kernel/cgroup_freeze.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/parse.h"
#include "kernel/held_file.h"
#include "kernel/process_ref.h"
#include "kernel/setting_leftovers.h"

namespace forestall::kernel {
namespace {

Result<bool> is_frozen(int file, const std::string& name) {
  std::string buffer;
  const auto value = parse_u64(trim(TRY(read_whole(file, buffer, name))));
  if (!value) return error(fmt::format("{} has no number", name));
  return *value != 0;
}

Result<void> write_frozen(int file, bool frozen, const std::string& name) {
  if (::pwrite(file, frozen ? "1" : "0", 1, 0) < 0) return errno_error("write", name);
  return {};
}

// Nothing: the text is of no process, so no process can thaw the cgroup.
std::optional<ProcessId> owner_in(std::string_view text) {
  const auto pid = parse_u64(next_word(text));
  const auto ticks = parse_u64(next_word(text));
  if (!pid || *pid == 0 || *pid > std::numeric_limits<pid_t>::max() || !ticks) return std::nullopt;
  return ProcessId{static_cast<pid_t>(*pid), *ticks};
}

}  // namespace

CgroupFreeze::CgroupFreeze(const SettingRecords& records, const CgroupDir& cgroup, UniqueFd file)
    : records_(&records),
      cgroup_(cgroup.id()),
      name_(cgroup.path() + "/cgroup.freeze"),
      file_(std::move(file)) {}

Result<CgroupFreeze> CgroupFreeze::freeze(const CgroupDir& cgroup, const SettingRecords& records) {
  UniqueFd file = TRY(cgroup.open_file("cgroup.freeze", O_RDWR));
  const std::string name = cgroup.path() + "/cgroup.freeze";
  if (TRY(is_frozen(file.get(), name))) {
    return Error{EBUSY, fmt::format("{} is frozen by another process", cgroup.path())};
  }
  const ProcessId self = TRY(read_process_id(::getpid()));
  TRY(records.claim({cgroup.id(), cgroup.path(), fmt::format("{} {}", self.pid, self.start_ticks)},
                    [](std::string_view) { return true; }));
  CgroupFreeze frozen(records, cgroup, std::move(file));
  TRY(write_frozen(frozen.file_.get(), /*frozen=*/true, name));
  return frozen;
}

CgroupFreeze::~CgroupFreeze() {
  // A destructor cannot report an error. A failure leaves the record, and the next start retries.
  if (file_) static_cast<void>(thaw());
}

Result<void> CgroupFreeze::thaw() {
  if (!file_) return {};
  const auto thawed = write_frozen(file_.get(), /*frozen=*/false, name_);
  if (!thawed && thawed.error().code != ENODEV) return thawed.error();
  records_->drop(cgroup_);
  file_.reset();
  return {};
}

std::vector<std::string> thaw_leftovers(const CgroupTree& tree, const SettingRecords& records,
                                        bool dry_run) {
  const auto thaw = [&](const CgroupDir& cgroup,
                        const SettingRecords::SavedSetting& left) -> Result<std::string> {
    const auto owner = owner_in(left.text);
    if (owner && is_running(*owner)) return std::string();
    if (dry_run) return std::string("stays frozen in a dry run");
    const UniqueFd file = TRY(cgroup.open_file("cgroup.freeze", O_RDWR));
    TRY(write_frozen(file.get(), /*frozen=*/false, left.path + "/cgroup.freeze"));
    records.drop(left.cgroup);
    return std::string("thawed");
  };
  return undo_leftovers(tree, records, thaw, "not thawed", "frozen cgroups are not thawed");
}

}  // namespace forestall::kernel
