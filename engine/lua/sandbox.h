/* Between the files of engine/lua that know lua.h. */
#ifndef SLUICE_LUA_SANDBOX_H
#define SLUICE_LUA_SANDBOX_H

#include <lauxlib.h>
#include <lua.h>
#include <stdint.h>

/* Take n steps from the call's budget; raises an error that nothing in Lua can catch when they are used up. */
void sandbox_spend(lua_State *L, uint64_t n);
/* Replace, in the string library on top of the stack, the pattern functions by bounded ones. */
void sandbox_patterns(lua_State *L);
/* Make the globals that a chunk may use. Runs protected; on an empty state. */
int sandbox_globals(lua_State *L);
/* Has a limit been met? Then whoever catches an error must raise it again. */
int sandbox_tripped(lua_State *L);

#endif
