// SPDX-License-Identifier: Apache-2.0
#include "kernel/fd_store.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <cstdlib>

#include "base/printable.h"
#include "kernel/guard_succession.h"

namespace forestall::kernel {
namespace {

Result<void> sent(int result, const char* what) {
  if (result > 0) return {};
  if (result == 0) return error("no service manager: NOTIFY_SOCKET is not set");
  return Error{-result, fmt::format("send {} to the service manager", what)};
}

bool is_listening(int fd) {
  return sd_is_socket(fd, AF_UNSPEC, 0, /*listening=*/1) > 0;
}

}  // namespace

std::unique_ptr<FdStore> FdStore::inherit() {
  std::unique_ptr<FdStore> store(new FdStore());
  char** names = nullptr;
  const int count = sd_listen_fds_with_names(/*unset_environment=*/1, &names);
  for (int i = 0; i < count; ++i) {
    UniqueFd passed(SD_LISTEN_FDS_START + i);
    if (!is_listening(passed.get())) {
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
  const std::string message = "FDSTORE=1\nFDNAME=" + name + "\nFDPOLL=0";
  TRY(sent(sd_pid_notify_with_fds(0, 0, message.c_str(), &fd, 1), "a descriptor"));
  names_.insert(name);
  return {};
}

Result<void> FdStore::drop(const std::string& name) {
  const std::string message = "FDSTOREREMOVE=1\nFDNAME=" + name;
  TRY(sent(sd_notify(0, message.c_str()), "FDSTOREREMOVE"));
  names_.erase(name);
  return {};
}

// This process has descriptors of its own until kept() is called.
Result<std::size_t> FdStore::drop_all() {
  passed_.clear();
  std::size_t dropped = 0;
  for (const std::string& name : std::set<std::string>(names_)) {
    if (!parse_guard_object(name)) continue;
    TRY(drop(name));
    ++dropped;
  }
  return dropped;
}

}  // namespace forestall::kernel
