// SPDX-License-Identifier: Apache-2.0
// Serves systemd's RestartUnit on a socket of its own, without a bus.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "support/temp_tree.h"

namespace forestall::test {

// What it answers about units.
struct FakeUnits {
  std::string active_state = "active";  // of every unit
  // Then the state changes, once it was read; empty: it stays.
  std::string later_state = "";
  // In place of the later state: the name of an error.
  std::string later_error = "";
  // The unit itself, if that has another name than the one in the request.
  std::string unit = "";
  // Of the caller. Empty: it is in none; nothing: that is an error.
  std::optional<std::string> own = "";
  std::string load_state = "loaded";  // of every unit
  // Of every service. Nothing: a systemd without a descriptor store.
  std::optional<std::uint32_t> store_max = std::nullopt;
  std::string version = "252.38-1~deb12u1";
};

class FakeSystemd {
 public:
  enum class Answer {
    finishes,          // the job ends with the result
    finishes_at_once,  // before the reply with its path
    refuses,           // there is no such unit
    never_finishes,
    closes,  // the connection
    answers_nothing,
    accepts_nothing,  // no connection
  };

  explicit FakeSystemd(Answer answer, std::string result = "done", FakeUnits units = {});
  FakeSystemd(const FakeSystemd&) = delete;
  FakeSystemd& operator=(const FakeSystemd&) = delete;
  ~FakeSystemd();

  // For D-Bus.
  [[nodiscard]] std::string address() const { return "unix:path=" + folder_ / "bus"; }
  // Units that were to be restarted, each with its mode.
  [[nodiscard]] std::vector<std::string> requests() const;
  // Waits for the first request.
  void wait_for_request() const;
  void add_request(const std::string& request);

  // Of each unit, at the next reading.
  [[nodiscard]] std::string next_state();  // an error's name: see FakeUnits::later_error
  // That reading is followed by a change.
  [[nodiscard]] bool changes_state() const { return states_read_ == early_readings() && changes(); }
  [[nodiscard]] Answer answer() const { return answer_; }
  [[nodiscard]] const std::string& result() const { return result_; }
  [[nodiscard]] const FakeUnits& units() const { return units_; }

 private:
  [[nodiscard]] bool changes() const {
    return !units_.later_state.empty() || !units_.later_error.empty();
  }
  // Of an alias, a client reads the state once more, when it has the unit's own name.
  [[nodiscard]] int early_readings() const { return units_.unit.empty() ? 1 : 2; }
  void serve();
  void serve_connection(UniqueFd connection);

  const Answer answer_;
  const std::string result_;
  const FakeUnits units_;
  int states_read_ = 0;  // used by the thread only
  TempTree folder_;
  UniqueFd listening_;
  UniqueFd stop_;       // eventfd
  UniqueFd requested_;  // eventfd
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;  // last
};

}  // namespace forestall::test
