#!/bin/bash
exec bash "$(dirname "$0")/run" postgres
