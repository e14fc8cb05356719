// SPDX-License-Identifier: Apache-2.0
#include "kernel/fd_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <cerrno>
#include <cstdlib>

#include "base/parse.h"
#include "base/printable.h"
#include "kernel/guard_succession.h"

namespace forestall::kernel {
namespace {

Result<void> sent(int result, const char* what) {
  if (result > 0) return {};
  if (result == 0) return error("no service manager: NOTIFY_SOCKET is not set");
  return Error{-result, fmt::format("send {} to the service manager", what)};
}

UniqueFd duplicate_of(const UniqueFd& fd) {
  return UniqueFd(fd ? ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0) : -1);
}

// FileDescriptorStoreMax= of the unit, from systemd 254 on.
std::optional<std::size_t> stored_at_most() {
  const char* text = std::getenv("FDSTORE");
  const auto max = text == nullptr ? std::nullopt : parse_u64(text);
  return max ? std::optional<std::size_t>(*max) : std::nullopt;
}

bool is_listening(int fd) {
  return sd_is_socket(fd, AF_UNSPEC, 0, /*listening=*/1) > 0;
}

}  // namespace

std::unique_ptr<FdStore> FdStore::inherit() {
  std::unique_ptr<FdStore> store(new FdStore());
  store->room_.max = stored_at_most();
  char** names = nullptr;
  const int count = sd_listen_fds_with_names(/*unset_environment=*/1, &names);
  for (int i = 0; i < count; ++i) {
    UniqueFd passed(SD_LISTEN_FDS_START + i);
    if (!is_listening(passed.get())) {
      if (std::string_view(names[i]) == kTurnObject) store->turn_ = duplicate_of(passed);
      store->passed_.push_back({names[i], std::move(passed)});
      store->names_.insert(names[i]);
    }
    std::free(names[i]);
  }
  std::free(static_cast<void*>(names));
  return store;
}

Result<std::vector<KeptObject>> FdStore::kept() {
  std::vector<KeptObject> objects = std::exchange(passed_, {});
  for (const KeptObject& object : objects) {
    const bool named = parse_guard_object(object.name).has_value();
    if (named && is_guard_object(object.name, object.fd.get())) continue;
    return error(fmt::format(
        "the service manager passed {}, which {}; none of its descriptors is used: stop the unit, "
        "which empties its store",
        printable(object.name),
        named ? "is not the BPF object of that name" : "is not of Forestall's guard"));
  }
  return objects;
}

// Without FDPOLL=0 the service manager polls it, gets EPOLLERR from a map, and removes it.
Result<void> FdStore::keep(const std::string& name, int fd) {
  if (room_.max && !names_.contains(name) && names_.size() >= *room_.max) {
    return Error{ENOSPC, fmt::format("no room for {} with FileDescriptorStoreMax={}; set it to 16",
                                     name, *room_.max)};
  }
  const std::string message = "FDSTORE=1\nFDNAME=" + name + "\nFDPOLL=0";
  TRY(sent(sd_pid_notify_with_fds(0, 0, message.c_str(), &fd, 1), "a descriptor"));
  names_.insert(name);
  return {};
}

Result<void> FdStore::drop(const std::string& name) {
  const std::string message = "FDSTOREREMOVE=1\nFDNAME=" + name;
  TRY(sent(sd_notify(0, message.c_str()), "FDSTOREREMOVE"));
  names_.erase(name);
  std::erase_if(passed_, [&](const KeptObject& object) { return object.name == name; });
  if (name == kTurnObject) turn_.reset();
  return {};
}

Result<std::vector<std::string>> FdStore::names() const {
  return std::vector<std::string>(names_.begin(), names_.end());
}

std::string FdStore::place() const {
  if (!room_.max) return "systemd";
  return fmt::format("systemd, with FileDescriptorStoreMax={}", *room_.max);
}

UniqueFd FdStore::turn() const {
  return duplicate_of(turn_);
}

}  // namespace forestall::kernel
